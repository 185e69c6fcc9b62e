"""Which network addresses a page with metrics may have: none that leads to a cloud's secrets."""

import ipaddress

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# The metadata services of clouds that lie outside of the link-local networks: Alibaba, Oracle
# (classic), Azure's wire server, AWS over IPv6.
_OF_CLOUDS = frozenset(
    ipaddress.ip_address(text)
    for text in ("100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254")
)
# Prefixes under which IPv6 carries an IPv4 address in its last 32 bits.
_CARRIERS = tuple(
    ipaddress.IPv6Network(text) for text in ("::/96", "64:ff9b::/96", "64:ff9b:1::/48")
)


def unwrap(address: _Address) -> _Address:
    """Return the IPv4 address that an IPv6 one stands for, else the address."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    inner = address.ipv4_mapped or address.sixtofour
    if inner is not None:
        return inner
    # `::` and `::1` carry nothing.
    if int(address) > 0xFFFF and any(address in network for network in _CARRIERS):
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def may_hold_page(address: _Address) -> bool:
    """Tell whether a page may be there."""
    meant = unwrap(address)
    return not (
        meant.is_link_local or meant.is_multicast or meant.is_unspecified or meant in _OF_CLOUDS
    )
