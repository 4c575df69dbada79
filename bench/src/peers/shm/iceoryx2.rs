//! iceoryx2 by its request and response ports: the transport between processes that is known for its speed.
//!
//! A request is loaned, written and sent; the server loans a response, copies the request into it and sends it back.
//! There is no call that sends many at once. Both ends look again and again, as iceoryx2's own benchmark does.
//!
//! Not here: the other end (`bin/shm_echo.rs`), what both agree on (`service.rs`).

use super::service;
use super::terms::MESSAGE_BYTES_MAX;
use super::{Echo, Landed, Line, Patience};
use iceoryx2::pending_response::PendingResponse;
use iceoryx2::port::client::Client;
use iceoryx2::prelude::ipc;
use std::collections::VecDeque;

type Pending = PendingResponse<ipc::Service, [u8], (), [u8], ()>;

// Fields are dropped in this order: the ports before the process at the other end.
pub(crate) struct IceoryxLine {
    /// Requests under way, oldest first, which is the order of their responses.
    pending: VecDeque<Pending>,
    client: Client<ipc::Service, [u8], (), [u8], ()>,
    received: u64,
    _service: service::Service,
    _echo: Echo,
}

pub(crate) fn start() -> Result<IceoryxLine, String> {
    let echo = Echo::start("iceoryx2", |_| Ok(()))?;
    let service = service::open(echo.folder()).map_err(|error| error.to_string())?;
    let client = service.client_builder().initial_max_slice_len(MESSAGE_BYTES_MAX).create();
    let client = client.map_err(|error| error.to_string())?;
    Ok(IceoryxLine { pending: VecDeque::new(), client, received: 0, _service: service, _echo: echo })
}

impl Line for IceoryxLine {
    fn send(&mut self, task: &[u8]) -> Result<(), String> {
        let request = self.client.loan_slice_uninit(task.len()).map_err(|error| error.to_string())?;
        let request = request.write_from_slice(task);
        self.pending.push_back(request.send().map_err(|error| error.to_string())?);
        Ok(())
    }

    fn receive(&mut self, landed: &mut Landed<'_>) -> Result<(), String> {
        let mut patience = Patience::new();
        let before = self.received;
        while let Some(oldest) = self.pending.front() {
            match oldest.receive().map_err(|error| error.to_string())? {
                Some(response) => {
                    landed(self.received, response.payload())?;
                    drop(response);
                    self.pending.pop_front();
                    self.received += 1;
                }
                None if self.received > before => break,
                None => patience.ask("iceoryx2")?,
            }
        }
        Ok(())
    }
}
