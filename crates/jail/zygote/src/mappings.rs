//! Fewer mappings: every fork copies each, and every end takes it down.
//!
//! A library is five of them: what may only be read lies before and after its code, and the first part of its data is
//! locked once it is linked. Made alike, neighbours are one mapping to the kernel. That is nothing to whoever runs code of
//! his own in a worker anyway; no page is both writable and executable.

use core::ffi::{c_int, c_void};

use crate::sys::{self, number};

const READ: u64 = 1;
const WRITE: u64 = 2;
const EXECUTE: u64 = 4;

const LOAD: u32 = 1;
const RELRO: u32 = 0x6474_e552;
const WRITABLE: u32 = 2;

/// A part of a library as its file has it.
#[repr(C)]
struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    in_file: u64,
    length: u64,
    alignment: u64,
}

/// The start of what the C library tells of one.
#[repr(C)]
struct Library {
    base: u64,
    name: *const u8,
    segments: *const Segment,
    count: u16,
}

unsafe extern "C" {
    /// Calls back for every library that is loaded.
    fn dl_iterate_phdr(each: extern "C" fn(*const Library, usize, *mut c_void) -> c_int, data: *mut c_void) -> c_int;
}

/// Makes neighbours alike. A host that refuses it has more mappings.
pub(crate) fn merge() {
    // SAFETY: the callback keeps nothing, and this process has one thread.
    unsafe { dl_iterate_phdr(merge_one, core::ptr::null_mut()) };
}

extern "C" fn merge_one(library: *const Library, _: usize, _: *mut c_void) -> c_int {
    // SAFETY: the C library lends one that is loaded, with as many segments as it says.
    let (library, name, segments) = unsafe {
        let library = &*library;
        (library, *library.name, core::slice::from_raw_parts(library.segments, usize::from(library.count)))
    };
    // Those of a file have its path, the program itself none. What else there is, is the kernel's own.
    if name != b'/' && name != 0 {
        return 0;
    }
    for segment in segments {
        let start = library.base.wrapping_add(segment.address);
        let end = start.wrapping_add(segment.length);
        match segment.kind {
            LOAD if segment.flags & WRITABLE == 0 => protect(start & !0xFFF, end.wrapping_add(0xFFF) & !0xFFF, EXECUTE),
            RELRO => protect(start & !0xFFF, end & !0xFFF, WRITE),
            _ => {}
        }
    }
    0
}

fn protect(start: u64, end: u64, how: u64) {
    let arguments = [start, end.saturating_sub(start), READ | how, 0, 0];
    // SAFETY: the memory is a library's own and stays readable, its code executable and its data writable: nothing that
    // the interpreter does with it is refused from here on.
    let _ = unsafe { sys::call(number::MPROTECT, arguments) };
}
