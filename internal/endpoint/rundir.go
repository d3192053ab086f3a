// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"cmp"
	"os"
	"path/filepath"
)

// The folders of the sockets, as distributions build Open vSwitch and OVN.
const (
	defaultOVSRunDir = "/var/run/openvswitch"
	defaultOVNRunDir = "/var/run/ovn"
)

// OVSSocket returns the endpoint of a socket of Open vSwitch, in OVS_RUNDIR if set (lib/dirs.c.in of OVS).
func OVSSocket(name string) Endpoint { return socket("OVS_RUNDIR", defaultOVSRunDir, name) }

// OVNSocket returns the endpoint of a socket of OVN, in OVN_RUNDIR if set (lib/ovn-dirs.c.in of OVN).
func OVNSocket(name string) Endpoint { return socket("OVN_RUNDIR", defaultOVNRunDir, name) }

func socket(variable, byDefault, name string) Endpoint {
	return Endpoint{Network: "unix", Address: filepath.Join(cmp.Or(os.Getenv(variable), byDefault), name)}
}
