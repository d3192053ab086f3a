// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// cluster is a Southbound database of three servers.
type cluster struct {
	databases
	row string // of moving.internal in Southbound
}

func newCluster(t *testing.T) cluster {
	n := cluster{databases: newDatabases(t, lab.Options{Members: 3})}
	n.row = n.SouthboundDNS(n.moving)
	return n
}

// others are the members beside m.
func (n cluster) others(m *lab.Member) (all []*lab.Member) {
	for _, other := range n.Members {
		if other != m {
			all = append(all, other)
		}
	}
	return all
}

// first has puntdns begin with m, and lists the others behind it.
func (n cluster) first(m *lab.Member) string {
	list := "southbound " + m.Endpoint
	for _, other := range n.others(m) {
		list += " " + other.Endpoint
	}
	return databasesCorefile(list)
}

// set changes the name that moves in Southbound itself, by way of a member, which
// may be without a leader for the moment: ovn-sbctl gives up then.
func (n cluster) set(by *lab.Member, addr string) {
	n.Eventually("the change", func() error {
		return by.SBCTL("set", "DNS", n.row, `records={"moving.internal"="`+addr+`"}`)
	})
}

// A server goes away in one way or another, and another takes its place: no answer
// is lost or wrong meanwhile, and what is committed after that is in the answers
// within a second.
func TestClusterMemberGone(t *testing.T) {
	t.Parallel()
	n := newCluster(t)
	// It would put the rows right that are changed behind its back.
	n.Kill("ovn-northd")
	kill := func(m *lab.Member) { n.Kill(m.Name) }
	revive := func(m *lab.Member) { n.Revive(m.Name) }
	changes := 100
	for _, tc := range []struct {
		name string
		// read is whether the server that goes is the one that is read, leads
		// whether it leads the cluster.
		read, leads bool
		gone, back  func(*lab.Member)
		// reason is told; if it takes time to find out, what is committed
		// meanwhile is late.
		reason string
		late   bool
	}{
		{name: "leader killed", read: true, leads: true, gone: kill, back: revive, reason: "the server closed the connection"},
		{name: "follower killed", read: true, gone: kill, back: revive, reason: "the server closed the connection"},
		{name: "leader of the follower killed", leads: true, gone: kill, back: revive},
		{name: "leader isolated", read: true, leads: true, gone: (*lab.Member).Isolate, back: (*lab.Member).Rejoin, reason: "the server is cut off from its cluster", late: true},
		{name: "follower isolated", read: true, gone: (*lab.Member).Isolate, back: (*lab.Member).Rejoin, reason: "the server is cut off from its cluster", late: true},
		{
			name: "follower hangs", read: true, reason: "the server is silent and answers no echo request", late: true,
			gone: func(m *lab.Member) { m.Signal(syscall.SIGSTOP) }, back: func(m *lab.Member) { m.Signal(syscall.SIGCONT) },
		},
		// The last: it does not come back.
		{
			name: "follower leaves", read: true, reason: "", late: true,
			gone: func(m *lab.Member) { n.AppCtl(m.Name, "cluster/leave", "OVN_Southbound") }, back: func(*lab.Member) {},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n.AwaitCluster()
			goes := n.Leader()
			if !tc.leads {
				goes = n.others(goes)[0]
			}
			read, stays := goes, n.others(goes)[0]
			if !tc.read {
				read = stays
			}
			s := launch(t, n.Lab, n.Node, strings.ReplaceAll(tc.name, " ", "-"), n.first(read))
			s.ready(200)
			s.readsFrom(read.Endpoint)
			moves := func() { s.readsFrom(n.others(goes)[0].Endpoint, n.others(goes)[1].Endpoint) }
			next := func() {
				t.Helper()
				changes++
				addr := fmt.Sprintf("10.0.1.%d", changes)
				follows(t, n.red, "moving.internal.", dns.TypeA, "NOERROR "+addr, func() { n.set(stays, addr) })
			}
			n.steady(t, func() {
				tc.gone(goes)
				if gone := time.Now(); tc.late {
					moves()
					t.Logf("moved on after %s", time.Since(gone))
				}
				for range 3 {
					next()
				}
				moves()
				s.ready(200)
				tc.back(goes)
				next()
			})
			want := 0
			if tc.read {
				want = 1
			}
			s.toldTimes(t, want, logNotSynced, "OVN_Southbound", goes.Endpoint, tc.reason)
			s.endWell()
		})
	}

	// OVN itself goes on with what is left.
	n.Revive("ovn-northd")
	s := serve(t, n.Lab, n.first(n.Leader()))
	n.SetDNS(n.moving, map[string]string{"moving.internal": "10.0.1.200"})
	n.comes(t, n.red, "moving.internal.", "NOERROR 10.0.1.200")
	s.endWell()
}

// A member that is connected to its cluster but behind what was read before is no
// way back: as OVN's clients do, puntdns waits until it has caught up.
func TestClusterMemberBehind(t *testing.T) {
	t.Parallel()
	n := newCluster(t)
	n.Kill("ovn-northd")
	// With long elections a member that is isolated is slow to find out.
	leader := n.Leader()
	for timer := 2000; timer <= 16000; timer *= 2 {
		n.Eventually("the election timer", func() error {
			_, err := n.Node.Exec(context.Background(), "ovs-appctl", "--target="+n.Dir+"/"+leader.Name+".ctl",
				"cluster/change-election-timer", "OVN_Southbound", fmt.Sprint(timer))
			return err
		})
	}
	followers := n.others(leader)
	fresh, behind := followers[0], followers[1]
	s := serve(t, n.Lab, databasesCorefile("southbound "+fresh.Endpoint+" "+behind.Endpoint))
	s.readsFrom(fresh.Endpoint)
	const refused = "the server is behind what was read of its cluster before"
	n.steady(t, func() {
		behind.Isolate()
		follows(t, n.red, "moving.internal.", dns.TypeA, "NOERROR 10.0.1.101", func() { n.set(fresh, "10.0.1.101") })
		n.Kill(fresh.Name)
		s.ready(503)
		s.log(logNotSynced, "OVN_Southbound", behind.Endpoint, refused)
		answers(t, n.red, "moving.internal.", "NOERROR 10.0.1.101")
		behind.Rejoin()
		s.readsFrom(behind.Endpoint)
		s.ready(200)
		answers(t, n.red, "moving.internal.", "NOERROR 10.0.1.101")
		follows(t, n.red, "moving.internal.", dns.TypeA, "NOERROR 10.0.1.102", func() { n.set(behind, "10.0.1.102") })
	})
	s.toldTimes(t, 1, logNotSynced, "OVN_Southbound", behind.Endpoint, refused)
	s.endWell()
}
