// SPDX-License-Identifier: Apache-2.0

package openflow

// PortStatus says that a port was added or deleted (OpenFlow 1.5.1, 7.4.3). It is in order with the
// packet-ins: packet-ins of a port with the number of an earlier port come after the PortStatus of its
// deletion.
type PortStatus struct {
	Gone bool // deleted; else added
	Port Port
}

// Reasons of a PORT_STATUS (ofp_port_reason), and the bits of them in a SET_ASYNC.
const (
	portAdded   = 0
	portDeleted = 1

	portStatusMask = 1<<portAdded | 1<<portDeleted
)

// decodePortStatus decodes a PORT_STATUS, and reports whether a port was added or deleted:
// other changes are ignored.
func decodePortStatus(msg []byte, v Version) (s PortStatus, ok bool, err error) {
	const fixed = headerLen + 8
	if len(msg) < fixed {
		return s, false, malformed("port status of %d bytes", len(msg))
	}
	ports, err := decodePorts(msg[fixed:], v)
	switch {
	case err != nil:
		return s, false, err
	case len(ports) != 1:
		return s, false, malformed("port status about %d ports", len(ports))
	}
	reason := msg[headerLen]
	return PortStatus{Gone: reason == portDeleted, Port: ports[0]}, reason <= portDeleted, nil
}
