//! Frames of the private door: a kind, a length, that many bytes.
//!
//! Both ends are saggar of the same version, so there is nothing to negotiate. Content travels in pieces of at most
//! [`CHUNK`] bytes, and whoever sends standard input waits to be asked for each piece: neither end holds more of a
//! stream than a few pieces, and a `Cancel` is never stuck behind input that nobody reads.

/// The most bytes of content in one frame.
pub const CHUNK: usize = 64 << 10;

const HEADER: usize = 5;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// To the server: the program's bytes, before `Ask`.
    Code,
    /// To the server: everything else about the run, as JSON. It starts now.
    Ask,
    /// To the server: standard input, once for each `More`.
    Stdin,
    /// To the server: the end of standard input.
    StdinEnd,
    /// To the server: take the run back.
    Cancel,
    /// To the server: the terminal's columns and rows, two bytes each, little end first.
    Resize,
    /// To the server: the file wanted was opened; one byte, 1 if it may be executed.
    Input,
    /// To the server: the file offered was written.
    Taken,
    /// To the server: the file offered was not written, because something stands in its place.
    Refused,
    /// To the client: one more piece of standard input has room.
    More,
    /// To the client: send this input file; its number as four bytes, little end first.
    Want,
    /// To the client: output.
    Stdout,
    /// To the client: error output.
    Stderr,
    /// To the client: a file that the run made, as JSON; its content follows.
    Made,
    /// Either way: content of the file under way.
    Data,
    /// Either way: the end of the file under way.
    DataEnd,
    /// To the client: the result as JSON, and the last frame.
    Result,
    /// To the client: an error body as JSON, and the last frame.
    Error,
}

impl Kind {
    const ALL: [Self; 18] = [
        Self::Code,
        Self::Ask,
        Self::Stdin,
        Self::StdinEnd,
        Self::Cancel,
        Self::Resize,
        Self::Input,
        Self::Taken,
        Self::Refused,
        Self::More,
        Self::Want,
        Self::Stdout,
        Self::Stderr,
        Self::Made,
        Self::Data,
        Self::DataEnd,
        Self::Result,
        Self::Error,
    ];
}

/// One frame.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it is.
    pub kind: Kind,
    /// What it carries.
    pub payload: Vec<u8>,
}

/// Why bytes are no frame.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// No kind has this number.
    #[error("frame of unknown kind {0}")]
    Kind(u8),
    /// Longer than this end takes.
    #[error("frame of {0} bytes is too long")]
    Length(usize),
}

/// Appends one frame. A payload of 4 GiB or more cannot be said.
pub fn encode(kind: Kind, payload: &[u8], into: &mut Vec<u8>) -> Result<(), FrameError> {
    let length = u32::try_from(payload.len()).map_err(|_| FrameError::Length(payload.len()))?;
    into.reserve(HEADER + payload.len());
    into.push(kind as u8);
    into.extend_from_slice(&length.to_le_bytes());
    into.extend_from_slice(payload);
    Ok(())
}

/// Cuts a stream of bytes into frames.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    start: usize,
    most: usize,
}

impl Decoder {
    /// Takes frames of at most `most` bytes.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, most }
    }

    /// Takes bytes that have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame, if it is there.
    pub fn frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some((header, rest)) = self.buffer[self.start..].split_first_chunk::<HEADER>() else { return Ok(None) };
        let [kind, length @ ..] = *header;
        let kind = *Kind::ALL.get(usize::from(kind)).ok_or(FrameError::Kind(kind))?;
        let length = u32::from_le_bytes(length) as usize;
        if length > self.most {
            return Err(FrameError::Length(length));
        }
        let Some(payload) = rest.get(..length) else { return Ok(None) };
        let payload = payload.to_vec();
        self.start += HEADER + length;
        Ok(Some(Frame { kind, payload }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_kind_is_its_place() {
        for (place, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place);
        }
    }

    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_cut() {
        let mut bytes = Vec::new();
        encode(Kind::Stdout, b"hello", &mut bytes).unwrap();
        encode(Kind::More, b"", &mut bytes).unwrap();
        for size in 1..=bytes.len() {
            let mut decoder = Decoder::new(5);
            let mut frames = Vec::new();
            for piece in bytes.chunks(size) {
                decoder.push(piece);
                frames.extend(std::iter::from_fn(|| decoder.frame().unwrap()));
            }
            let wanted = [
                Frame { kind: Kind::Stdout, payload: b"hello".to_vec() },
                Frame { kind: Kind::More, payload: Vec::new() },
            ];
            assert_eq!(frames, wanted);
        }
    }

    #[test]
    fn bytes_that_are_no_frame_are_refused_before_they_are_kept() {
        let mut decoder = Decoder::new(10);
        decoder.push(&[99, 0, 0, 0, 0]);
        assert_eq!(decoder.frame(), Err(FrameError::Kind(99)));
        let mut decoder = Decoder::new(10);
        decoder.push(&[0, 11, 0, 0, 0]);
        assert_eq!(decoder.frame(), Err(FrameError::Length(11)));
    }
}
