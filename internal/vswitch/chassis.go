// SPDX-License-Identifier: Apache-2.0

package vswitch

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Keys of external_ids with the integration bridge (ovn-controller(8)): for all chassis, or for one named
// behind the prefix.
const (
	bridgeKey       = "ovn-bridge"
	bridgeKeyPrefix = "ovn-bridge-"
	defaultBridge   = "br-int"
)

// notChassis are other options with the prefix.
var notChassis = []string{"ovn-bridge-mappings", "ovn-bridge-datapath-type"}

type chassisConfig struct {
	systemID string
	bridges  map[string]string
}

func newChassisConfig(ids map[string]string) chassisConfig {
	c := chassisConfig{systemID: ids["system-id"], bridges: map[string]string{}}
	for key, bridge := range ids {
		if key == bridgeKey || strings.HasPrefix(key, bridgeKeyPrefix) && !slices.Contains(notChassis, key) {
			c.bridges[key] = bridge
		}
	}
	return c
}

func (c chassisConfig) bridgeOf(chassis string) string {
	if b := c.bridges[bridgeKeyPrefix+chassis]; b != "" {
		return b
	}
	if b := c.bridges[bridgeKey]; b != "" {
		return b
	}
	return defaultBridge
}

// name returns the chassis of a bridge, "" if unknown. override, from systemIDOverride, precedes the
// database, as in ovn-controller (controller/chassis.c, get_ovs_chassis_id).
//
// The option -n of ovn-controller precedes both, and is not in the database. But several ovn-controllers on a
// host have a key for each bridge. So if this chassis has another bridge, and exactly one other has this
// bridge, name returns the other.
func (c chassisConfig) name(bridge, override string) string {
	name := c.systemID
	if override != "" {
		name = override
	}
	if name != "" && c.bridgeOf(name) == bridge {
		return name
	}
	var others []string
	for key, b := range c.bridges {
		if chassis, ok := strings.CutPrefix(key, bridgeKeyPrefix); ok && chassis != "" && b == bridge {
			others = append(others, chassis)
		}
	}
	if len(others) == 1 {
		return others[0]
	}
	return name
}

// encapKey is a key of Open_vSwitch.external_ids, followed by - and a chassis if it is not of all: addresses, separated by commas
// (ovn-controller(8)).
const encapKey = "ovn-encap-ip"

// tunnelAddresses returns the addresses of the node in tunnels.
func tunnelAddresses(ids map[string]string) (all []netip.Addr) {
	for key, value := range ids {
		if key != encapKey && !strings.HasPrefix(key, encapKey+"-") {
			continue
		}
		for text := range strings.SplitSeq(value, ",") {
			if a, err := netip.ParseAddr(strings.TrimSpace(text)); err == nil {
				all = append(all, a.Unmap())
			}
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// maxSystemID is how many bytes ovn-controller reads of the file, with the end of the line
// (controller/ovn-controller.c, get_file_system_id).
const maxSystemID = 63

// systemIDOverride reads OVN's file system-id-override, "" if unreadable. ovn-controller reads it at its
// start.
func systemIDOverride() string {
	dir := os.Getenv("OVN_SYSCONFDIR") // as for OVN's own programs
	if dir == "" {
		dir = "/etc"
	}
	b, err := os.ReadFile(filepath.Join(dir, "system-id-override"))
	if err != nil {
		return ""
	}
	line, _, _ := bytes.Cut(b[:min(len(b), maxSystemID)], []byte("\n"))
	return string(bytes.TrimSuffix(line, []byte("\r")))
}
