// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Version is that of a release of OVN (year, month, patch level) or of Open vSwitch.
type Version [3]int

var versionNumber = regexp.MustCompile(`\b(\d+)\.(\d+)\.(\d+)\b`)

// ParseVersion finds the version in the first line of what a daemon says of itself, such
// as "ovn-northd 23.03.1".
func ParseVersion(said string) (v Version, err error) {
	line, _, _ := strings.Cut(said, "\n")
	found := versionNumber.FindStringSubmatch(line)
	if found == nil {
		return v, fmt.Errorf("no version in %q", line)
	}
	for i, digits := range found[1:] {
		if v[i], err = strconv.Atoi(digits); err != nil {
			return Version{}, err
		}
	}
	return v, nil
}

// String is the version as the release has it: the months of OVN have two digits.
func (v Version) String() string {
	if v[0] >= 20 {
		return fmt.Sprintf("%d.%02d.%d", v[0], v[1], v[2])
	}
	return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2])
}

// since reports whether the version is that one or later.
func (v Version) since(year, month int) bool {
	return slices.Compare(v[:2], []int{year, month}) >= 0
}

// Release is what a lab runs. Its methods say what is different from release to release,
// as far as tests depend on it; everything else is asked of the running daemons.
type Release struct {
	OVN    Version // of ovn-northd
	Switch Version // of ovs-vswitchd
}

// String names both.
func (r Release) String() string {
	return fmt.Sprintf("OVN %s, Open vSwitch %s", r.OVN, r.Switch)
}

// DNSAnswersEDNS reports whether OVN's own DNS answers a query that has an OPT record.
// The answer has none. Before it is passed on ("pinctrl: dns: Ignore additional records",
// in the series of 23.03, 23.06, 23.09 and later).
func (r Release) DNSAnswersEDNS() bool {
	switch [2]int(r.OVN[:2]) {
	case [2]int{23, 3}, [2]int{23, 6}:
		return r.OVN[2] >= 3
	case [2]int{23, 9}:
		return r.OVN[2] >= 2
	}
	return r.OVN.since(23, 12)
}

// DNSRefusesOwned reports whether OVN knows options:ovn-owned of its DNS rows (ovn-nb(5)),
// and refuses A and AAAA of a name of theirs that has no such address.
func (r Release) DNSRefusesOwned() bool { return r.OVN.since(24, 3) }

// DNSShuffles reports whether OVN's own DNS puts the addresses of an answer into random
// order.
func (r Release) DNSShuffles() bool { return r.OVN.since(26, 3) }

// DNSReadsAhead reports whether OVN's own DNS may answer by keys of Southbound that its flows
// do not have yet: where the keys of two switches change hands in a database that is made
// anew, with the names of the other one.
func (r Release) DNSReadsAhead() bool { return r.OVN.since(25, 3) }

// TracesVIP reports whether a trace in the switch shows what goes to the VIP of a load balancer. Later releases match
// the destination that connection tracking has stored, which a trace does not have.
func (r Release) TracesVIP() bool { return !r.OVN.since(26, 3) }

// HasNetworkFunctions reports whether OVN has network functions, which ACLs send packets through
// (ovn-nb(5), Network_Function).
func (r Release) HasNetworkFunctions() bool { return r.OVN.since(26, 3) }

// RoutesListeners reports whether routers forward messages of multicast listeners (ICMPv6 types 130 to 132) to unicast
// addresses.
func (r Release) RoutesListeners() bool { return !r.OVN.since(25, 3) }

// SwitchSpoilsHopByHop reports whether the userspace datapath gives UDP behind an IPv6
// hop-by-hop header a wrong checksum, once the packet has been through its connection
// tracking; from guest to guest too.
func (r Release) SwitchSpoilsHopByHop() bool { return r.Switch.since(4, 0) }

// Release returns what the lab runs.
func (l *Lab) Release() Release {
	l.t.Helper()
	return Installed(l.t)
}

// Installed returns what a lab would run.
func Installed(t T) Release {
	t.Helper()
	r, err := installedRelease()
	if err != nil {
		t.Fatalf("lab: %v", err)
	}
	return r
}

var installedRelease = sync.OnceValues(func() (r Release, err error) {
	if r.OVN, err = versionOf("ovn-northd"); err != nil {
		return r, err
	}
	r.Switch, err = versionOf("ovs-vswitchd")
	return r, err
})

func versionOf(daemon string) (Version, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	path, err := program(daemon)
	if err != nil {
		return Version{}, err
	}
	cmd := exec.CommandContext(ctx, path, "--version")
	var out strings.Builder
	cmd.Stdout = &out
	if err := onSpawner(cmd.Start); err != nil {
		return Version{}, err
	}
	if err := cmd.Wait(); err != nil {
		return Version{}, fmt.Errorf("%s --version: %w", daemon, err)
	}
	return ParseVersion(out.String())
}
