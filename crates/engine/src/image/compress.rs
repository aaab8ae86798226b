//! Streams that may be packed, told by how they begin.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// Frames that hold no content: `0x184D2A50` to `0x184D2A5F`.
const SKIPPED: &[u8] = &[0x2a, 0x4d, 0x18];

/// What a stream unpacks to; one that is not packed, as it is.
pub(crate) fn unpacked<'a>(stream: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut stream = BufReader::with_capacity(64 << 10, stream);
    let start = peek(&mut stream)?;
    Ok(if start.starts_with(GZIP) {
        Box::new(MultiGzDecoder::new(stream))
    } else if start.starts_with(ZSTD) || is_skipped(&start) {
        Box::new(Frames { state: Some(State::Between(Whole(stream))) })
    } else {
        Box::new(stream)
    })
}

/// Whether a stream that begins so is packed.
pub(super) fn is_packed(start: &[u8]) -> bool {
    start.starts_with(GZIP) || start.starts_with(ZSTD) || is_skipped(start)
}

/// The first four bytes, which stay in the stream; fewer, if there are no more at once.
fn peek(stream: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let start = stream.fill_buf()?;
    Ok(start[..start.len().min(4)].to_vec())
}

fn is_skipped(start: &[u8]) -> bool {
    start.len() == 4 && start[0] & 0xf0 == 0x50 && &start[1..] == SKIPPED
}

/// A reader whose ends of buffers do not show: the decoder wants whole headers.
struct Whole<R>(BufReader<R>);

impl<R: Read> Read for Whole<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

/// The frames of a zstd stream, one after another.
struct Frames<R: Read> {
    state: Option<State<R>>,
}

enum State<R: Read> {
    Between(Whole<R>),
    Inside(Box<StreamingDecoder<Whole<R>, ruzstd::decoding::FrameDecoder>>),
}

impl<R: Read> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            match self.state.take() {
                None => return Ok(0),
                Some(State::Inside(mut frame)) => {
                    let read = frame.read(buffer)?;
                    if read > 0 {
                        self.state = Some(State::Inside(frame));
                        return Ok(read);
                    }
                    self.state = Some(State::Between(frame.into_inner()));
                }
                Some(State::Between(mut stream)) => {
                    let start = peek(&mut stream.0)?;
                    if start.is_empty() {
                        return Ok(0);
                    }
                    if is_skipped(&start) {
                        let mut head = [0; 8];
                        stream.read_exact(&mut head)?;
                        let length = u64::from(u32::from_le_bytes([head[4], head[5], head[6], head[7]]));
                        io::copy(&mut (&mut stream).take(length), &mut io::sink())?;
                        self.state = Some(State::Between(stream));
                        continue;
                    }
                    let frame = StreamingDecoder::new(stream).map_err(io::Error::other)?;
                    self.state = Some(State::Inside(Box::new(frame)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read(bytes: &[u8]) -> Vec<u8> {
        let mut content = Vec::new();
        unpacked(bytes).unwrap().read_to_end(&mut content).unwrap();
        content
    }

    #[test]
    fn packed_and_plain_streams_read_the_same() {
        let text: Vec<u8> = (0..200_000_u32).flat_map(|n| (n % 251).to_le_bytes()).collect();
        assert_eq!(read(&text), text);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).unwrap();
        assert_eq!(read(&gzip.finish().unwrap()), text);
        let frame = ruzstd::encoding::compress_to_vec(&text[..], ruzstd::encoding::CompressionLevel::Fastest);
        let mut skipped = vec![0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, b'a', b'b', b'c'];
        let twice = [&skipped[..], &frame, &skipped, &frame].concat();
        assert_eq!(read(&twice), [&text[..], &text].concat());
        skipped.truncate(6);
        assert!(unpacked(&skipped[..]).unwrap().read_to_end(&mut Vec::new()).is_err());
    }
}
