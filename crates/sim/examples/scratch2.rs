//! x
//! y
use millpond_sim::*;
fn main() {
    let st = Some(millpond_policy::steal::StealSettings::default());
    for (workers, load, strategy, service, tasks, stealing) in [(16,0.8,"shared",Service::Exponential,4_000_000,None),(16,0.9,"shared",Service::Exponential,4_000_000,None),(1,0.8,"shared",Service::Constant,2_000_000,None),(1,0.8,"shared",Service::Bimodal,2_000_000,None),
      (2,0.8,"round-robin",Service::Exponential,3_000_000,None),(50,0.8,"random",Service::Exponential,2_500_000,None),(8,0.8,"random",Service::Exponential,1_500_000,st),(1000,0.9,"power-of-two",Service::Exponential,2_000_000,None)] {
        let os: Vec<Outcome> = (100..116).map(|seed| simulate(&Scenario{workers, load, strategy:strategy.into(), service, tasks, seed, stealing, ..Default::default()}).unwrap()).collect();
        let stat = |f: &dyn Fn(&Outcome)->f64| { let rs: Vec<f64>=os.iter().map(f).collect(); let m = rs.iter().sum::<f64>()/16.0; let sd=(rs.iter().map(|x|(x-m)*(x-m)).sum::<f64>()/15.0).sqrt(); (m, sd/m) };
        println!("{strategy} {workers} {load} {service:?} {tasks}: wait {:?}", stat(&|o| o.wait_mean_ns/1e6));
        for k in 0..6 { print!("  {:?}", stat(&|o| o.load_at_least[k])); } println!();
    }
}
