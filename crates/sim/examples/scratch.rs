//! x
//! y
use millpond_sim::*;
use std::time::Instant;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let workers: u32 = a[1].parse().unwrap(); let tasks: u64 = a[2].parse().unwrap();
    for (name, _) in strategies() {
        if a.len() > 3 && !a[3].split(',').any(|x| x == name) { continue; }
        let t = Instant::now();
        let r = simulate(&Scenario{workers, tasks, strategy: name.into(), ..Default::default()});
        match r { Ok(o) => println!("{name:24} {:7.2}s  p50 {:>10} p99 {:>10} p999 {:>10} mean {:.4}ms fair {:.4} util {:.4}", t.elapsed().as_secs_f64(), o.waits.percentiles().p50, o.waits.percentiles().p99, o.waits.percentiles().p999, o.wait_mean_ns/1e6, o.fairness, o.utilisation), Err(e)=>println!("{name} {e}") }
    }
}
