// SPDX-License-Identifier: Apache-2.0

package names

import "net/netip"

// Values of Answer.Source.
const (
	sourceDNS  = "dns"  // records of a DNS row
	sourcePort = "port" // hostname of a port
)

// Answer is what a network knows of a name. The slices are shared: callers must
// not change them.
type Answer struct {
	// V4 and V6 are the addresses of the name.
	V4, V6 []netip.Addr
	// PTR are the targets of a name below in-addr.arpa or ip6.arpa, fully
	// qualified and in presentation form.
	PTR []string
	// Source says which table the answer comes from: "dns" for the records of a DNS
	// row, "port" for the hostname of a port.
	Source string
	// OVNOwned is set for a row with options:ovn-owned=true: a query for the
	// name must never leave the node.
	OVNOwned bool
}
