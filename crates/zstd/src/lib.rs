//! What `parquet` asks of the crate of this name, by `ruzstd`: tables are unpacked, and nothing is packed.
//!
//! The crate that this stands for binds the C library, and a data set is a file that strangers made.

/// Whole buffers at once.
pub mod bulk {
    use std::io::{Cursor, Error, ErrorKind, Read as _, Result};
    use std::marker::PhantomData;

    use ruzstd::decoding::StreamingDecoder;

    /// Packs nothing.
    pub struct Compressor<'a>(PhantomData<&'a ()>);

    impl Compressor<'_> {
        /// One of any level.
        pub fn new(_level: i32) -> Result<Self> {
            Ok(Self(PhantomData))
        }

        /// Always an error.
        pub fn compress_to_buffer(&mut self, _from: &[u8], _to: &mut Cursor<&mut Vec<u8>>) -> Result<usize> {
            Err(Error::new(ErrorKind::Unsupported, "tables are not packed by zstd here"))
        }
    }

    /// Unpacks frames.
    pub struct Decompressor<'a>(PhantomData<&'a ()>);

    impl Decompressor<'_> {
        /// One without a dictionary.
        pub fn new() -> Result<Self> {
            Ok(Self(PhantomData))
        }

        /// Unpacks all frames of `from` behind the cursor, and says how many bytes they were. More than there is room for
        /// in the buffer is an error: a small frame may stand for any number of bytes.
        pub fn decompress_to_buffer(&mut self, from: &[u8], to: &mut Cursor<&mut Vec<u8>>) -> Result<usize> {
            let start = usize::try_from(to.position()).map_err(Error::other)?;
            let buffer = to.get_mut();
            let room = buffer.capacity().saturating_sub(start);
            buffer.truncate(start);
            let mut rest = from;
            while !rest.is_empty() {
                let left = (room + start).saturating_sub(buffer.len()) as u64;
                let mut frame = StreamingDecoder::new(&mut rest).map_err(Error::other)?;
                frame.by_ref().take(left).read_to_end(buffer)?;
                if frame.read(&mut [0])? > 0 {
                    return Err(Error::new(ErrorKind::InvalidData, "more is packed than was told"));
                }
            }
            let unpacked = buffer.len().saturating_sub(start);
            to.set_position((start + unpacked) as u64);
            Ok(unpacked)
        }
    }
}

/// What frames say of themselves.
pub mod zstd_safe {
    /// Never known: who asks takes a guess, and the table's own number is asked first.
    pub const fn get_frame_content_size(_from: &[u8]) -> std::io::Result<Option<u64>> {
        Ok(None)
    }

    /// Room for what is never packed.
    #[must_use]
    pub const fn compress_bound(_length: usize) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail loudly")]

    use std::io::Cursor;

    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::bulk::Decompressor;

    #[test]
    fn frames_are_unpacked_behind_what_is_there_and_never_beyond_the_room() {
        let text = b"the quick brown fox ".repeat(1000);
        let frame = compress_to_vec(&text[..], CompressionLevel::Fastest);
        let unpack = |frames: &[u8], room: usize| {
            let mut buffer = Vec::with_capacity(room + 3);
            buffer.extend_from_slice(b"abc");
            let mut cursor = Cursor::new(&mut buffer);
            cursor.set_position(3);
            let count = Decompressor::new().unwrap().decompress_to_buffer(frames, &mut cursor).ok()?;
            Some((count, buffer))
        };
        let (count, buffer) = unpack(&frame, text.len()).unwrap();
        assert_eq!((count, &buffer[..3], &buffer[3..]), (text.len(), &b"abc"[..], &text[..]));
        let two = [frame.clone(), frame.clone()].concat();
        assert_eq!(unpack(&two, 2 * text.len()).unwrap().0, 2 * text.len());
        assert!(unpack(&two, text.len() + 5).is_none());
        assert!(unpack(&frame, 10).is_none());
        assert!(unpack(&frame[..frame.len() / 2], text.len()).is_none());
    }
}
