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

// notChassis are options of ovn-controller that begin like the prefix.
var notChassis = []string{"ovn-bridge-mappings", "ovn-bridge-datapath-type"}

// chassisConfig is what the database says of the names of chassis.
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

// on is the integration bridge of the chassis.
func (c chassisConfig) on(chassis string) string {
	if b := c.bridges[bridgeKeyPrefix+chassis]; b != "" {
		return b
	}
	if b := c.bridges[bridgeKey]; b != "" {
		return b
	}
	return defaultBridge
}

// name is the name of the chassis on a bridge, as far as the database and the file
// tell, whose content is override. The file comes first, as for ovn-controller
// (controller/chassis.c, get_ovs_chassis_id).
//
// The name that ovn-controller was given by its option -n comes before both, and stands
// nowhere. Yet a host with several has to have a bridge named for each, so if that name
// is of another bridge, the one that has this bridge is the one.
func (c chassisConfig) name(bridge, override string) string {
	name := c.systemID
	if override != "" {
		name = override
	}
	if name != "" && c.on(name) == bridge {
		return name
	}
	var of []string
	for key, b := range c.bridges {
		if chassis, ok := strings.CutPrefix(key, bridgeKeyPrefix); ok && chassis != "" && b == bridge {
			of = append(of, chassis)
		}
	}
	if len(of) == 1 {
		return of[0]
	}
	return name
}

// maxSystemID is how much ovn-controller reads of the file, the end of the line
// included (controller/ovn-controller.c, get_file_system_id).
const maxSystemID = 63

// SystemIDOverride is the name of the chassis in the file system-id-override in OVN's
// folder of configuration files, empty without one. ovn-controller reads it when it
// starts.
func SystemIDOverride() string {
	dir := os.Getenv("OVN_SYSCONFDIR") // as for OVN's own programs
	if dir == "" {
		dir = "/etc"
	}
	b, err := os.ReadFile(filepath.Join(dir, "system-id-override"))
	if err != nil {
		return "" // there is none, or it is not ours to read
	}
	line, _, _ := bytes.Cut(b[:min(len(b), maxSystemID)], []byte("\n"))
	return string(bytes.TrimSuffix(line, []byte("\r")))
}
