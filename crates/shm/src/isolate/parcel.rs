//! A few bytes and some descriptors, through a socket that keeps them together.
//!
//! Each parcel arrives whole and by itself, in order, or not at all. Its bytes are of a fixed, small size.
//!
//! Not here: what is in them (`wire.rs`).

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The most descriptors in one parcel.
const DESCRIPTORS_MAX: usize = 2;
/// The most bytes in one parcel.
pub(super) const PARCEL_BYTES: usize = 32;

/// What came.
#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) bytes: [u8; PARCEL_BYTES],
    pub(super) descriptors: Vec<OwnedFd>,
}

/// Two sockets, each the other's end. Neither outlives its process in a program that this one starts.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends a parcel. Waits for room, unless `flags` say otherwise.
pub(super) fn send(
    socket: impl AsFd,
    bytes: &[u8; PARCEL_BYTES],
    descriptors: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    loop {
        match sendmsg(&socket, &[IoSlice::new(bytes)], &mut control, flags | SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(()),
        }
    }
}

/// Waits for a parcel; none if the other end is closed.
pub(super) fn receive(socket: impl AsFd) -> io::Result<Option<Parcel>> {
    let mut bytes = [0; PARCEL_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut places = [IoSliceMut::new(&mut bytes)];
        match recvmsg(&socket, &mut places, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => return Ok(None),
            Err(error) => return Err(error.into()),
            Ok(received) => break received.bytes,
        }
    };
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let descriptors = descriptors.flatten().collect();
    Ok((received > 0).then_some(Parcel { bytes, descriptors }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::{read, write};
    use rustix::pipe::pipe;

    #[test]
    fn descriptors_arrive_with_their_bytes_and_the_end_is_told() {
        let (near, far) = pair().unwrap();
        let (reading, writing) = pipe().unwrap();
        let sent = [7; PARCEL_BYTES];
        send(&near, &sent, &[writing.as_fd()], SendFlags::empty()).unwrap();
        send(&near, &[8; PARCEL_BYTES], &[], SendFlags::empty()).unwrap();
        drop((near, writing));
        let first = receive(&far).unwrap().unwrap();
        assert_eq!((first.bytes, first.descriptors.len()), (sent, 1));
        write(&first.descriptors[0], b"x").unwrap();
        let mut byte = [0];
        assert_eq!((read(&reading, &mut byte).unwrap(), byte), (1, *b"x"));
        let second = receive(&far).unwrap().unwrap();
        assert_eq!((second.bytes[0], second.descriptors.len()), (8, 0));
        assert!(receive(&far).unwrap().is_none());
    }
}
