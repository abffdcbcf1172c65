//! Which addresses belong to the public internet. What a stranger has a server call must be one of
//! them, or it is made to call its own network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is one of the public internet: not this machine, not a private or link-local
/// network, nothing that is reserved.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let reserved = match a {
        0 | 10 | 127 | 224..=255 => true,
        100 => (64..=127).contains(&b),
        169 => b == 254,
        172 => (16..=31).contains(&b),
        192 => b == 168 || b == 0 && (c == 0 || c == 2),
        198 => b == 18 || b == 19 || b == 51 && c == 100,
        203 => b == 0 && c == 113,
        _ => false,
    };
    !reserved
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(v4) = address.to_ipv4() {
        // Mapped and compatible ones, and `::` and `::1` with them.
        return is_public_v4(v4) && !address.is_loopback() && !address.is_unspecified();
    }
    let segments = address.segments();
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments[0] {
        // Only this block is given out.
        0x2000..=0x3fff => {
            let documentation = segments[0] == 0x2001 && segments[1] == 0x0db8;
            let tunnel = segments[0] == 0x2001 && segments[1] == 0;
            let six_to_four = segments[0] == 0x2002;
            !documentation && !tunnel && (!six_to_four || embedded(segments[1], segments[2]))
        }
        0x64 if segments[1] == 0xff9b && segments[2..6] == [0; 4] => {
            embedded(segments[6], segments[7])
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S6.13: nobody has this server call its own network, in whatever spelling.
    #[test]
    fn s6_13_addresses_of_ones_own_network_are_not_public() {
        for public in [
            "8.8.8.8",
            "1.1.1.1",
            "172.32.0.1",
            "2606:4700::1111",
            "64:ff9b::808:808",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for hidden in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "fc00::1",
            "fe80::1",
            "ff02::1",
            "2001:db8::1",
        ] {
            assert!(!is_public(hidden.parse().unwrap()), "{hidden}");
        }
    }
}
