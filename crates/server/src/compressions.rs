//! Which compression a connection has: what `protocol_compression_algorithms` allows and the client asks for.
//!
//! Neighbours: `connection` offers and chooses; `esker_wire::compress` does it.

use esker_types::{SqlError, SqlResult};
use esker_wire::compress::{Algorithm, ZSTD_LEVELS};
use esker_wire::constants::cap;
use esker_wire::handshake::Response;

/// zstd's level where the client names none that exists.
const ZSTD_DEFAULT: u8 = 3;

/// What is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Compressions {
    zlib: bool,
    zstd: bool,
    uncompressed: bool,
}

impl Compressions {
    /// From the value of the variable.
    pub(crate) fn named(list: &str) -> Self {
        let has = |name: &str| list.split(',').any(|word| word.eq_ignore_ascii_case(name));
        Self {
            zlib: has("zlib"),
            zstd: has("zstd"),
            uncompressed: has("uncompressed"),
        }
    }

    /// What the greeting offers.
    pub(crate) fn capabilities(self) -> u32 {
        let zlib = if self.zlib { cap::COMPRESS } else { 0 };
        let zstd = if self.zstd { cap::ZSTD_COMPRESSION } else { 0 };
        zlib | zstd
    }

    /// What the connection has; zlib where the client takes both.
    ///
    /// # Errors
    /// 3922: it must have one, and the client asks for none.
    pub(crate) fn choose(self, response: &Response) -> SqlResult<Option<Algorithm>> {
        let wants = |bit| response.capabilities & bit != 0;
        if self.zlib && wants(cap::COMPRESS) {
            return Ok(Some(Algorithm::Zlib));
        }
        if self.zstd && wants(cap::ZSTD_COMPRESSION) {
            let wished = Some(response.zstd_level).filter(|level| ZSTD_LEVELS.contains(level));
            return Ok(Some(Algorithm::Zstd(wished.unwrap_or(ZSTD_DEFAULT))));
        }
        if self.uncompressed {
            return Ok(None);
        }
        let text = "Invalid compression algorithm 'uncompressed'.";
        Err(SqlError::new(3922, "HY000", text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_and_the_client_choose() {
        let response = |capabilities, zstd_level| Response {
            capabilities,
            zstd_level,
            ..Response::default()
        };
        let choose = |list, capabilities, level| {
            let allowed = Compressions::named(list);
            // The greeting offers no more than is allowed, and the response is cut to that.
            allowed.choose(&response(capabilities & allowed.capabilities(), level))
        };
        let (zlib, zstd) = (cap::COMPRESS, cap::ZSTD_COMPRESSION);
        let all = "zlib,ZSTD,uncompressed";
        assert_eq!(choose(all, zlib | zstd, 5), Ok(Some(Algorithm::Zlib)));
        assert_eq!(choose(all, zstd, 5), Ok(Some(Algorithm::Zstd(5))));
        assert_eq!(choose(all, zstd, 99), Ok(Some(Algorithm::Zstd(3))));
        assert_eq!(choose(all, 0, 0), Ok(None));
        assert_eq!(choose("zstd,uncompressed", zlib, 0), Ok(None));
        assert_eq!(choose("zlib", zstd, 5).expect_err("none").code, 3922);
    }
}
