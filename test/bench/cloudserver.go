// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/puntdns/puntdns/test/lab"
)

// openvswitch is the programs of one version of Open vSwitch, and the schema of the OVN that
// came with it.
type openvswitch struct {
	root    string // of another release; empty for what is installed
	version string
}

// command returns the command line of a program. That of another release runs with the
// libraries of its own root folder, and needs nothing else of it.
func (v *openvswitch) command(dir, program string, args ...string) []string {
	if v.root == "" {
		return append([]string{program}, args...)
	}
	return append([]string{
		filepath.Join(v.root, "usr/lib64/ld-linux-x86-64.so.2"), "--library-path", filepath.Join(v.root, "usr/lib/x86_64-linux-gnu"),
		filepath.Join(v.root, "usr", dir, program),
	}, args...)
}

func (v *openvswitch) schema() string {
	return filepath.Join(v.root, "/usr/share/ovn/ovn-sb.ovsschema")
}

// cloudServer is an ovsdb-server.
type cloudServer struct {
	b      *bench
	socket string
	file   string // without an ending
	proc   *lab.Process
	logged int64 // how far its log has been read
}

// startServer starts an ovsdb-server and returns when it serves; from is what it has the database
// from.
func (c *cloud) startServer(name, from string) *cloudServer {
	s := &cloudServer{b: c.b, socket: filepath.Join(c.lab.Dir, name+".sock"), file: filepath.Join(c.lab.Dir, name)}
	argv := c.version.command("sbin", "ovsdb-server", "-vconsole:off", "-vsyslog:off", "-vfile:info", "--log-file="+s.file+".serverlog",
		"--unixctl="+s.file+".ctl", "--remote=punix:"+s.socket, from)
	s.proc = c.lab.Node.Start(name, nil, argv...)
	c.lab.Eventually(name, func() error {
		_, err := os.Stat(s.socket)
		return err
	})
	c.tool("bin", "ovsdb-client", "--timeout=60", "wait", "unix:"+s.socket, "OVN_Southbound", "connected")
	return s
}

// A server is idle that uses less than idleShare of processor time in each idleSample. Two thousand
// connections cost 13 ms that nothing is sent to, and what there is to do makes it use all.
const (
	idleSample = 100 * time.Millisecond
	idleShare  = 50 * time.Millisecond
	// idleSamples is how many of them have to be like that in a row.
	idleSamples = 3
)

// awaitIdle waits until servers have done all that they were told.
func (c *cloud) awaitIdle(servers ...*cloudServer) {
	began := time.Now()
	for quiet := 0; quiet < idleSamples; {
		before := c.cpuOf(servers)
		time.Sleep(idleSample)
		if slices.Max(c.since(servers, before)) < idleShare {
			quiet++
			continue
		}
		quiet = 0
		if time.Since(began) > patienceOfCloud {
			c.b.t.Fatalf("a server was busy for %s", patienceOfCloud)
		}
	}
}

func (c *cloud) cpuOf(servers []*cloudServer) (all []time.Duration) {
	for _, s := range servers {
		all = append(all, c.b.cpu(s.proc.Pid))
	}
	return all
}

func (c *cloud) since(servers []*cloudServer, before []time.Duration) (all []time.Duration) {
	for i, now := range c.cpuOf(servers) {
		all = append(all, now-before[i])
	}
	return all
}

// tool runs a program to its end.
func (c *cloud) tool(dir, program string, args ...string) string {
	argv := c.version.command(dir, program, args...)
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		c.b.t.Fatalf("%v: %v\n%s", argv, err, out)
	}
	return string(out)
}

// appctl runs a command of a server.
func (c *cloud) appctl(s *cloudServer, args ...string) string {
	return c.tool("bin", "ovs-appctl", append([]string{"--timeout=60", "-t", s.file + ".ctl"}, args...)...)
}

func (s *cloudServer) stop() {
	if err := s.proc.Kill(); err != nil && !strings.Contains(err.Error(), "killed") {
		s.b.t.Fatalf("%v", err)
	}
	_ = os.Remove(s.socket)
}

var longPoll = regexp.MustCompile(`Unreasonably long (\d+)ms poll interval`)

// longestPoll returns what the server calls its longest poll interval since the last call, in ms. It
// speaks of those above a second only, or above half of its election timer.
func (s *cloudServer) longestPoll() (most float64) {
	text, err := os.ReadFile(s.file + ".serverlog")
	if err != nil {
		s.b.t.Fatalf("%v", err)
	}
	for _, m := range longPoll.FindAllSubmatch(text[s.logged:], -1) {
		if ms, err := strconv.ParseFloat(string(m[1]), 64); err == nil {
			most = max(most, ms)
		}
	}
	s.logged = int64(len(text))
	return most
}

// probe asks a server for an echo ten times a second: how long it takes is how long
// everybody else waits.
type probe struct {
	cancel context.CancelFunc
	worst  chan time.Duration
}

func (s *cloudServer) probe() *probe {
	conn, err := net.Dial("unix", s.socket)
	if err != nil {
		s.b.t.Fatalf("%v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &probe{cancel: cancel, worst: make(chan time.Duration, 1)}
	go func() {
		defer conn.Close()
		r := json.NewDecoder(bufio.NewReader(conn))
		worst := time.Duration(0)
		for ctx.Err() == nil {
			began := time.Now()
			_, err := fmt.Fprint(conn, `{"method":"echo","params":[],"id":1}`)
			var reply json.RawMessage
			if err == nil {
				err = r.Decode(&reply)
			}
			if err != nil {
				break // the server was ended
			}
			worst = max(worst, time.Since(began))
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
		p.worst <- worst
	}()
	return p
}

func (p *probe) end() time.Duration {
	p.cancel()
	return <-p.worst
}

// quantileOf is a quantile of values in any order, NaN-free: 0 for none.
func quantileOf(values []float64, q float64) float64 {
	return quantile(slices.Sorted(slices.Values(values)), q)
}
