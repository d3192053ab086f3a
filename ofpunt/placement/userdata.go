// SPDX-License-Identifier: Apache-2.0

package placement

import "bytes"

// Onward is the OpenFlow table in which a resumed packet continues.
type Onward int16

// Nowhere is the Onward of a packet that may not be resumed.
const Nowhere Onward = -1

// userData begins the user data of puntdns's packet-ins. A byte with the table follows, except for Nowhere.
var userData = []byte("puntdns\x01")

func appendUserData(b []byte, to Onward) []byte {
	b = append(b, userData...)
	if to != Nowhere {
		b = append(b, uint8(to))
	}
	return b
}

// ReadUserData returns where a punted packet continues. ok reports whether the packet-in is puntdns's.
func ReadUserData(b []byte) (to Onward, ok bool) {
	rest, ok := bytes.CutPrefix(b, userData)
	switch {
	case !ok || len(rest) > 1:
		return Nowhere, false
	case len(rest) == 0:
		return Nowhere, true
	}
	return Onward(rest[0]), true
}
