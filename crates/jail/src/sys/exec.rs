//! `execve` with prepared arguments.

use std::ffi::{CStr, CString};

use rustix::io::Errno;

use super::last_errno;

/// Strings as the kernel wants them. Made before the sandbox closes, so that starting cannot fail on memory.
pub(crate) struct CStrings {
    strings: Vec<CString>,
}

impl CStrings {
    /// Fails if a string has a NUL in it.
    pub(crate) fn new<S: AsRef<str>>(strings: &[S]) -> Result<Self, Errno> {
        let strings: Result<_, _> = strings.iter().map(|s| CString::new(s.as_ref())).collect();
        Ok(Self { strings: strings.map_err(|_| Errno::INVAL)? })
    }

    fn pointers(&self) -> Vec<*const libc::c_char> {
        self.strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
    }
}

/// Replaces this program. Returns only to say why it could not.
pub(crate) fn execve(path: &CStr, argv: &CStrings, env: &CStrings) -> Errno {
    let (argv_pointers, env_pointers) = (argv.pointers(), env.pointers());
    // SAFETY: `path` is NUL-terminated, and both arrays end in a null pointer and point into `CString`s that outlive
    // the call.
    unsafe { libc::execve(path.as_ptr(), argv_pointers.as_ptr(), env_pointers.as_ptr()) };
    last_errno()
}
