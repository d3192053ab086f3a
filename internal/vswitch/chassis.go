// SPDX-License-Identifier: Apache-2.0

package vswitch

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Keys of Open_vSwitch.external_ids that name the integration bridge of an
// ovn-controller: of all, and with the name of a chassis behind the prefix of that one
// (ovn-controller(8)).
const (
	bridgeKey       = "ovn-bridge"
	bridgeKeyPrefix = "ovn-bridge-"
	defaultBridge   = "br-int"
)

// notChassis are options of ovn-controller that have the prefix and name no chassis.
var notChassis = []string{"ovn-bridge-mappings", "ovn-bridge-datapath-type"}

// chassisConfig is what Open_vSwitch.external_ids says of the names of chassis.
type chassisConfig struct {
	systemID string
	// bridges are the values of the keys above, by key.
	bridges map[string]string
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

// bridgeOf returns the integration bridge of a chassis.
func (c chassisConfig) bridgeOf(chassis string) string {
	if b := c.bridges[bridgeKeyPrefix+chassis]; b != "" {
		return b
	}
	if b := c.bridges[bridgeKey]; b != "" {
		return b
	}
	return defaultBridge
}

// name returns the name of the chassis on a bridge, "" if it is not known. override is
// that of systemIDOverride, which has precedence over the database, as in ovn-controller
// (controller/chassis.c, get_ovs_chassis_id).
//
// For ovn-controller its option -n has precedence over both, and it is not in the
// database. But a host with several of them has a key with the bridge of each. So if the
// name found is of another bridge, and one other chassis has this bridge, it is that one.
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

// maxSystemID is how many bytes ovn-controller reads of the file, the end of the line
// included (controller/ovn-controller.c, get_file_system_id).
const maxSystemID = 63

// systemIDOverride returns the name of the chassis in the file system-id-override in OVN's folder of
// configuration files, "" if it can't be read. ovn-controller reads the file when it starts.
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
