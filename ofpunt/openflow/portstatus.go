// SPDX-License-Identifier: Apache-2.0

package openflow

// PortStatus says that a port has come or gone (OpenFlow 1.5.1, 7.4.3). It is in
// order with the packet-ins: one from a port that has taken over a number comes
// after the PortStatus about the port that had it.
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

// decodePortStatus reads a PORT_STATUS, and tells whether a port has come or gone:
// what else may happen to one does not matter here.
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
