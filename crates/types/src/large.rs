//! Fallible growth of buffers whose size a client decides.
//!
//! Neighbours: the server makes room here for packets that clients send.
//! **Invariant**: what the heap refuses is error 1041 for the one who asked, not the end of the process.

use crate::error::SqlResult;
use crate::errors;

/// Makes room for `more` bytes behind what is in the buffer, and no more than that.
///
/// # Errors
/// 1041: the heap has not so many.
pub fn exact_room(buffer: &mut Vec<u8>, more: usize) -> SqlResult<()> {
    buffer
        .try_reserve_exact(more)
        .map_err(|_| errors::out_of_memory(format!("the system has no {more} bytes more")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_machine_has_is_an_error() {
        let mut small = b"abc".to_vec();
        for too_much in [1 << 60, usize::MAX] {
            assert_eq!(
                exact_room(&mut small, too_much).expect_err("too much").code,
                1041
            );
        }
        exact_room(&mut small, 5).expect("five more");
        assert_eq!(small, b"abc");
        assert!(small.capacity() >= 8);
    }
}
