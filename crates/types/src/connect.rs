//! Frames of the Connect protocol: a flag, four bytes of length, that many bytes.

/// A frame of this flag is packed.
pub const PACKED: u8 = 1;
/// The last frame of an answer.
pub const END: u8 = 2;

const HEADER: usize = 5;

/// One frame.
#[must_use]
pub fn frame(flag: u8, message: &[u8]) -> Vec<u8> {
    // Nobody who writes frames has a message of 4 GiB.
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[flag][..], &length.to_be_bytes(), message].concat()
}

/// Why bytes are no frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// One is packed, and nobody was asked to pack.
    #[error("packed messages are not understood")]
    Packed,
    /// One is said to be longer than any may be.
    #[error("a message is too long")]
    TooLong,
}

/// Cuts a stream of bytes into frames, and holds no more than one of them and what came with it.
#[derive(Debug)]
pub struct Frames {
    bytes: Vec<u8>,
    /// What was taken out already.
    taken: usize,
    /// The longest message that is waited for.
    most: usize,
}

impl Frames {
    /// For messages of at most `most` bytes.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { bytes: Vec::new(), taken: 0, most }
    }

    /// More bytes have come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The flag and the message of the next frame that is whole.
    pub fn next_frame(&mut self) -> Result<Option<(u8, &[u8])>, FrameError> {
        let Some((header, rest)) = self.bytes[self.taken..].split_first_chunk::<HEADER>() else { return Ok(None) };
        let [flag, length @ ..] = *header;
        if flag & PACKED != 0 {
            return Err(FrameError::Packed);
        }
        let length = u32::from_be_bytes(length) as usize;
        if length > self.most {
            return Err(FrameError::TooLong);
        }
        if rest.len() < length {
            return Ok(None);
        }
        let begin = self.taken + HEADER;
        self.taken = begin + length;
        Ok(Some((flag, &self.bytes[begin..begin + length])))
    }

    /// Whether nothing is left, so that the stream may end here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.taken == self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in_however_they_were_cut() {
        let whole = [frame(0, b"{}"), frame(0, &[b'x'; 300]), frame(END, b"")].concat();
        for size in [1, 2, 5, 64, 1000] {
            let mut frames = Frames::new(300);
            let mut seen = Vec::new();
            for piece in whole.chunks(size) {
                frames.push(piece);
                while let Some((flag, message)) = frames.next_frame().unwrap() {
                    seen.push((flag, message.len()));
                }
            }
            assert_eq!(seen, [(0, 2), (0, 300), (END, 0)], "in pieces of {size}");
            assert!(frames.is_empty());
        }
    }

    #[test]
    fn a_length_is_believed_only_up_to_the_most() {
        let mut frames = Frames::new(300);
        frames.push(&[0, 255, 255, 255, 255]);
        assert_eq!(frames.next_frame(), Err(FrameError::TooLong));
    }

    #[test]
    fn packed_frames_and_halves_are_told_apart() {
        let mut frames = Frames::new(300);
        frames.push(&frame(PACKED, b"{}"));
        assert_eq!(frames.next_frame(), Err(FrameError::Packed));
        let mut frames = Frames::new(300);
        frames.push(&frame(0, b"{}")[..6]);
        assert_eq!(frames.next_frame(), Ok(None));
        assert!(!frames.is_empty());
    }
}
