//! The iceoryx2 service that both ends open: requests and responses of bytes, as many under way as a group wants.
//!
//! Its files lie in the private folder of a round and go with it. The limits are raised from iceoryx2's defaults to
//! what the groups need, and nothing else is changed.
//!
//! Not here: what is sent (`iceoryx2.rs`, `bin/shm_echo.rs`).

use super::terms::IN_FLIGHT_MAX;
use iceoryx2::prelude::{Config, NodeBuilder, ipc};
use iceoryx2::service::port_factory::request_response::PortFactory;
use std::error::Error;
use std::path::Path;

/// The service, made by whoever comes first.
pub(crate) type Service = PortFactory<ipc::Service, [u8], (), [u8], ()>;

pub(crate) fn open(folder: &Path) -> Result<Service, Box<dyn Error>> {
    let mut config = Config::default();
    config.global.set_root_path(&folder.to_string_lossy().as_ref().try_into()?);
    let node = NodeBuilder::new().config(&config).create::<ipc::Service>()?;
    let service = node
        .service_builder(&"millpond/bench/echo".try_into()?)
        .request_response::<[u8], [u8]>()
        .max_active_requests_per_client(IN_FLIGHT_MAX)
        .max_response_buffer_size(1)
        .max_servers(1)
        .max_clients(1)
        .open_or_create()?;
    Ok(service)
}
