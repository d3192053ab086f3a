// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// Environment variables that tell of the machine that the labs run on, for all that
// run there.
const (
	// DatapathEnv is the datapath of every lab whose Options name none.
	DatapathEnv = "LAB_DATAPATH"
	// SlowEnv is how many times longer than usual things take here, from 1 on: as many
	// times longer are the waits.
	SlowEnv = "LAB_SLOW"
)

// Datapath types of Open vSwitch, as in ovs-vswitchd.conf.db(5).
const (
	Userspace = "netdev"
	// Kernel needs the module openvswitch.
	Kernel = "system"
)

// datapath returns the datapath type of a lab with these options.
func (o Options) datapath() (string, error) {
	name := o.Datapath
	if name == "" {
		name = os.Getenv(DatapathEnv)
	}
	switch name {
	case "":
		return Userspace, nil
	case Userspace, Kernel:
		return name, nil
	}
	return "", fmt.Errorf("%s=%s: expected %s or %s", DatapathEnv, name, Userspace, Kernel)
}

// slowness is the factor of SlowEnv.
func slowness() (int, error) {
	text := os.Getenv(SlowEnv)
	if text == "" {
		return 1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 1, fmt.Errorf("%s=%s: expected a whole number from 1 on", SlowEnv, text)
	}
	return n, nil
}

// Scaled returns how long a test has to wait on this machine for what takes at most d
// on others, see SlowEnv.
func Scaled(d time.Duration) time.Duration {
	n, _ := slowness() // New reports the error
	return d * time.Duration(n)
}

// IsSlow reports whether things take longer than usual here, see SlowEnv.
func IsSlow() bool { return Scaled(1) > 1 }
