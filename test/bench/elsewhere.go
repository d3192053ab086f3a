// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// elsewhereSuites are those that are measured in another root, too.
const elsewhereSuites = "local,forward"

// Scripts that make a root, and run a program in a copy of it; in this repository's folder.
const (
	rootScript      = "test/root.sh"
	elsewhereScript = "test/inroot.sh"
)

// elsewherePackages are those of the root.
var elsewherePackages = []string{
	"ovn-central", "ovn-host", "openvswitch-switch", "bind9-dnsutils", "iproute2", "ethtool", "procps",
	"dnsperf", "dnsmasq-base", "systemd-resolved", "neutron-openvswitch-agent",
}

// peersElsewhere measures, in the root folder of a newer Debian, the peers of its releases, and
// puntdns beside them on the same switch. Its rows go into the tables of the same suites here.
func (b *bench) peersElsewhere() {
	root, err := b.makeRoot()
	if err != nil {
		why := fmt.Sprintf("newest OVN and Open vSwitch, with %s and %s: %v", pNeutron, pResolved, err)
		b.report.leaveOut(why)
		b.say("left out: %s", why)
		return
	}
	found, err := b.measureElsewhere(root)
	if found != nil {
		b.report.merge(found)
		if len(found.Failed) > 0 {
			err = errors.New(strings.Join(found.Failed, "; "))
		}
	}
	if err != nil {
		b.t.Fatalf("in %s: %v", root, err)
	}
}

// makeRoot returns the path of the root, which it has made if it is named by its release.
func (b *bench) makeRoot() (string, error) {
	switch {
	case b.root == "":
		return "", errors.New("not asked for")
	case strings.Contains(b.root, "/"):
		return b.root, nil
	}
	cmd := exec.Command(rootScript, append([]string{b.root, "bench"}, elsewherePackages...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", rootScript, b.root, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// measureElsewhere runs this program in the root. Where a suite fails there, it returns what was measured
// with the error.
func (b *bench) measureElsewhere(root string) (*measured, error) {
	dir, err := os.MkdirTemp("", "puntdns-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	argv := []string{"-b", dir, root}
	for name, path := range map[string]string{"bench": self, "puntdns": b.puntdns, "coredns": b.coredns} {
		if err := os.Link(path, filepath.Join(dir, name)); err == nil {
			continue
		}
		if out, err := exec.Command("cp", "--", path, filepath.Join(dir, name)).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w: %s", err, out)
		}
	}
	argv = append(argv, filepath.Join(dir, "bench"), "-elsewhere", "-only", elsewhereSuites,
		"-puntdns", filepath.Join(dir, "puntdns"), "-coredns", filepath.Join(dir, "coredns"))
	if b.smallest {
		argv = append(argv, "-smallest")
	} else {
		argv = append(argv, "-rounds", strconv.Itoa(b.rounds), "-length", b.length.String())
	}
	cmd := exec.Command(elsewhereScript, argv...)
	var complaints strings.Builder
	cmd.Stderr = io.MultiWriter(os.Stderr, &complaints)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // what it has started ends with it
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	// The signal comes at the end of the thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var found *measured
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if m := new(measured); strings.HasPrefix(lines.Text(), "{") && json.Unmarshal(lines.Bytes(), m) == nil {
			found = m
			continue
		}
		fmt.Println(lines.Text())
	}
	err = errors.Join(lines.Err(), cmd.Wait())
	if found == nil { // it did not come to its suites
		complaint, _, _ := strings.Cut(complaints.String(), "\n")
		err = fmt.Errorf("nothing was measured: %w: %s", err, complaint)
	}
	return found, err
}

// measured is what a run elsewhere has measured.
type measured struct {
	Versions string
	Tables   []measuredTable
	Failed   []string // suites, with reasons
}

type measuredTable struct {
	Name   string
	Peers  []string
	Values map[string][]float64
}

// print writes what was measured as one line of JSON.
func (r *report) print(b *bench) error {
	m := measured{Versions: firstLine(b, "ovs-vswitchd", "--version") + ", " + firstLine(b, "ovn-northd", "--version"), Failed: r.failed}
	for _, t := range r.tables {
		m.Tables = append(m.Tables, measuredTable{t.name, t.peers, t.values})
	}
	return json.NewEncoder(os.Stdout).Encode(m)
}

// newest is the row of what a peer had in the other root.
func newest(row string) string { return row + ", newest" }

// merge adds the rows of a run elsewhere.
func (r *report) merge(m *measured) {
	r.newest = m.Versions
	for _, from := range m.Tables {
		t := r.table(from.Name)
		for _, peer := range from.Peers {
			for _, v := range from.Values[peer] {
				t.put(newest(peer), v)
			}
		}
	}
}

// leaveOut takes note of rows that can't be measured here, once.
func (r *report) leaveOut(what string) {
	if !slices.Contains(r.leftOut, what) {
		r.leftOut = append(r.leftOut, what)
	}
}
