//! Tasks by shared memory: requests, calls, batches, threads, callbacks, streams, cancels.
//!
//! Every reply is compared with what was asked, so that one that goes to the wrong task or comes twice shows.

use crate::house::{House, LONG, request, until};
use millpond_shm::{ClientError, Reply};
use millpond_tasks::ErrorCode;
use std::collections::HashSet;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

fn text(reply: &Reply) -> &str {
    std::str::from_utf8(&reply.body).unwrap()
}

#[test]
fn a_request_is_answered_quick_or_not() {
    let house = House::build();
    let client = house.client();
    for handler in ["echo", "slow_echo"] {
        let number = client.try_submit(&request(handler, r#"{"text":"hi"}"#)).unwrap();
        let reply = client.wait(number, LONG).unwrap().unwrap();
        assert_eq!((reply.number, reply.status, text(&reply)), (number, 0, r#"{"text":"hi"}"#));
        let again = client.wait(number, LONG);
        assert_eq!(again, Err(ClientError::Unknown { number }), "it is handed over once");
    }
    assert_eq!(client.in_flight(), 0);
}

#[test]
fn a_wrong_request_is_answered_with_code_and_words() {
    let house = House::build();
    let client = house.client();
    for (bytes, code, words) in [
        (&b"{"[..], ErrorCode::InvalidRequest, "line 1"),
        (b"\xff\xfe", ErrorCode::InvalidRequest, "expected"),
        (b"{\"handler\":\"nobody\"}", ErrorCode::UnknownHandler, "nobody"),
        (b"{\"handler\":\"quick_failure\"}", ErrorCode::HandlerError, "on purpose"),
        (b"", ErrorCode::InvalidRequest, "nothing"),
    ] {
        let number = client.try_submit(bytes).unwrap();
        let reply = client.wait(number, LONG).unwrap().unwrap();
        assert_eq!(reply.status, code.number(), "{}", text(&reply));
        assert!(text(&reply).contains(words), "{}", text(&reply));
    }
}

#[test]
fn calls_name_their_handler_once_and_batches_keep_their_order() {
    let house = House::build();
    let client = house.client();
    let (echo, nobody) = (client.handler("echo").unwrap(), client.handler("nobody").unwrap());
    let slow = client.handler("slow_echo").unwrap();
    assert_eq!(client.handler("echo").unwrap(), echo);
    for handler in [echo, slow] {
        let bodies: Vec<String> = (0..3000).map(|at| format!("{{\"at\":{at}}}")).collect();
        let args: Vec<&[u8]> = bodies.iter().map(String::as_bytes).collect();
        let mut numbers = Vec::new();
        assert_eq!(client.call_batch(handler, &args, &mut numbers, LONG), Ok(3000));
        let mut replies = Vec::new();
        while replies.len() < 3000 {
            assert!(client.next_ended_batch(&mut replies, 100, LONG) > 0);
        }
        replies.sort_by_key(|reply| reply.number);
        for ((reply, number), body) in replies.iter().zip(&numbers).zip(&bodies) {
            assert_eq!((reply.number, reply.status, text(reply)), (*number, 0, body.as_str()));
        }
    }
    let number = client.call(nobody, b"{}", LONG).unwrap();
    let reply = client.wait(number, LONG).unwrap().unwrap();
    assert_eq!(reply.status, ErrorCode::UnknownHandler.number(), "{}", text(&reply));
    let number = client.call(echo, b"[1]", LONG).unwrap();
    assert_eq!(client.wait(number, LONG).unwrap().unwrap().status, ErrorCode::InvalidRequest.number());
}

#[test]
fn many_threads_share_a_client_and_each_gets_its_own_replies() {
    let house = House::build();
    let client = house.client();
    thread::scope(|scope| {
        for thread in 0..6 {
            let client = client.clone();
            scope.spawn(move || {
                for round in 0..1000 {
                    let handler = if round % 3 == 0 { "slow_echo" } else { "echo" };
                    let args = format!("{{\"thread\":{thread},\"round\":{round}}}");
                    let number = client.submit_timeout(&request(handler, &args), LONG).unwrap();
                    let reply = client.wait(number, LONG).unwrap().unwrap();
                    assert_eq!((reply.number, text(&reply)), (number, args.as_str()));
                }
            });
        }
    });
    assert_eq!(client.in_flight(), 0);
}

#[test]
fn callbacks_are_called_once_each_and_never_show_up_elsewhere() {
    let house = House::build();
    let client = house.client();
    let (send, receive) = channel();
    let mut expected = HashSet::new();
    for round in 0..500 {
        let send = send.clone();
        let handler = if round % 2 == 0 { "slow_echo" } else { "echo" };
        let told = move |reply: Reply| send.send(reply.number).unwrap();
        expected.insert(client.submit_with(&request(handler, "{}"), LONG, told).unwrap());
    }
    let plain = client.try_submit(&request("echo", "{}")).unwrap();
    assert_eq!(client.next_ended(LONG).unwrap().number, plain);
    let told: Vec<u64> = (0..500).map(|_| receive.recv_timeout(LONG).unwrap()).collect();
    assert_eq!(told.iter().copied().collect::<HashSet<_>>(), expected);
    assert!(receive.try_recv().is_err() && client.in_flight() == 0);
}

#[test]
fn a_callback_may_use_the_client_itself() {
    let house = House::build();
    let client = house.client();
    let (send, receive) = channel();
    let inner = client.clone();
    let told = move |_: Reply| {
        let number = inner.submit_timeout(&request("slow_echo", "{\"second\":1}"), LONG).unwrap();
        send.send(inner.wait(number, LONG).unwrap().unwrap()).unwrap();
    };
    client.submit_with(&request("slow_echo", "{}"), LONG, told).unwrap();
    assert_eq!(text(&receive.recv_timeout(LONG).unwrap()), "{\"second\":1}");
}

#[test]
fn a_stream_is_read_in_order_to_its_end_even_after_the_reply_was_taken() {
    let house = House::build();
    let client = house.client();
    for count in [0_u64, 1, 50, 2000] {
        let number =
            client.submit_streaming(&request("count", &format!("{{\"to\":{count}}}")), LONG).unwrap();
        let mut next = 0;
        loop {
            match client.next_partial(number, LONG) {
                Ok(event) => {
                    let event: serde_json::Value = serde_json::from_slice(&event.unwrap()).unwrap();
                    assert_eq!(
                        (&event["partial"], &event["offset"]),
                        (&next.into(), &next.into()),
                        "{event}"
                    );
                    next += 1;
                }
                Err(error) => {
                    assert_eq!(error, ClientError::StreamOver { number });
                    break;
                }
            }
        }
        assert_eq!(next, count);
        assert_eq!(text(&client.wait(number, LONG).unwrap().unwrap()), "\"counted\"");
        assert!(matches!(client.next_partial(number, LONG), Err(ClientError::Unknown { .. })));
    }
}

#[test]
fn a_task_that_is_cancelled_says_so_and_no_other_does() {
    let house = House::build();
    let client = house.client();
    let waiting = client.try_submit(&request("wait", "{}")).unwrap();
    let delayed = client.try_submit(br#"{"handler":"echo","delay_ms":600000}"#).unwrap();
    until("both are under way", || house.stats().under_way == 2);
    for number in [waiting, delayed] {
        assert_eq!(client.wait(number, Duration::ZERO), Ok(None));
        client.cancel(number).unwrap();
        let reply = client.wait(number, LONG).unwrap().unwrap();
        assert_eq!(reply.status, ErrorCode::Cancelled.number(), "{}", text(&reply));
        assert_eq!(client.cancel(number), Err(ClientError::Unknown { number }));
    }
    let number = client.try_submit(&request("slow_echo", "{}")).unwrap();
    assert_eq!(client.wait(number, LONG).unwrap().unwrap().status, 0);
}

#[test]
fn a_program_that_leaves_takes_nothing_with_it_and_leaves_nothing_behind() {
    let house = House::build();
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    drop(house.client());
    until("the first has gone", || house.stats().clients == 0);
    let before = descriptors();
    for _ in 0..50 {
        let client = house.client();
        for _ in 0..100 {
            client.submit_timeout(&request("slow_echo", "{}"), LONG).unwrap();
        }
    }
    until("all have gone", || house.stats().clients == 0);
    let stats = house.stats();
    assert_eq!((stats.attached, stats.under_way, stats.answers_waiting), (51, 0, 0));
    assert_eq!(house.service.as_ref().unwrap().handle().stats().memory_door, Some(stats));
    until("their descriptors are closed", || descriptors() <= before);
    let handle = house.service.as_ref().unwrap().handle();
    until("every task has ended", || handle.live() == 0);
}
