// SPDX-License-Identifier: Apache-2.0

package openflow

// PortStatus reports an added or deleted port (OpenFlow 1.5.1, 7.4.3). Packet-ins of a reused port number follow
// the deletion's PortStatus.
type PortStatus struct {
	Gone bool // deleted; else added
	Port Port
}

// ofp_port_reason, and bits in a SET_ASYNC
const (
	portAdded   = 0
	portDeleted = 1

	portStatusMask = 1<<portAdded | 1<<portDeleted
)

// ok is false for other changes.
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
