// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const southbound = "OVN_Southbound"

// Member is one server of a Southbound database with Options.Members. It has a
// namespace of its own, where it talks with the others; its clients come by its
// socket, which a namespace does not matter to.
type Member struct {
	Name     string // "sb1" ..., for Lab.Kill, Lab.Revive and Lab.AppCtl
	Endpoint string

	host  *Host
	d     *daemon
	links []memberLink
}

// memberLink is a member's end of its cable to another member.
type memberLink struct {
	dev  string
	peer string // address of the other
}

func (l *Lab) memberSocket(number int) string { return fmt.Sprintf("%s/sb%d.sock", l.Dir, number) }

// memberEndpoints is the whole cluster, as OVN's programs take it.
func (l *Lab) memberEndpoints() string {
	var all []string
	for i := range l.opts.Members {
		all = append(all, "unix:"+l.memberSocket(i+1))
	}
	return strings.Join(all, ",")
}

// startMembers starts the servers of the Southbound cluster, the first one alone
// and the others by joining it.
func (l *Lab) startMembers(ctx context.Context) error {
	for i := range l.opts.Members {
		m, err := l.newMember(i + 1)
		if err != nil {
			return err
		}
		file := m.host.file(m.Name + ".db")
		argv := []string{"ovsdb-tool", "create-cluster", file, sbSchema, m.raft()}
		if i > 0 {
			argv = []string{"ovsdb-tool", "join-cluster", file, southbound, m.raft(), l.Members[0].raft()}
		}
		l.Members = append(l.Members, m)
		if _, err := m.host.Exec(ctx, argv...); err != nil {
			return err
		}
		socket := l.memberSocket(i + 1)
		m.d = newDaemon(m.host, l.Dir, m.Name, "ovsdb-server", "--remote=punix:"+socket, file)
		m.d.ready = func(ctx context.Context) error {
			if err := m.d.wait(ctx, socket); err != nil {
				return err
			}
			_, err := m.host.Exec(ctx, "ovsdb-client", timeoutFlag, "wait", "unix:"+socket, southbound, "connected")
			return err
		}
		l.daemons[m.Name] = m.d
		if err := m.d.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (m *Member) number() string { return strings.TrimPrefix(m.Name, "sb") }

func (m *Member) addr() string { return "172.30.255." + m.number() }

// raft is where the member listens for the others.
func (m *Member) raft() string { return "tcp:" + m.addr() + ":6644" }

// newMember makes a member's namespace, with a cable to each that there is.
func (l *Lab) newMember(number int) (*Member, error) {
	m := &Member{Name: fmt.Sprintf("sb%d", number), Endpoint: "unix:" + l.memberSocket(number)}
	var err error
	if m.host, err = l.newHost(m.Name); err != nil {
		return nil, err
	}
	if err := m.host.ip("addr add " + m.addr() + "/32 dev lo"); err != nil {
		return nil, err
	}
	for _, other := range l.Members {
		here, there := memberLink{"to" + other.Name, other.addr()}, memberLink{"to" + m.Name, m.addr()}
		if err := vethPair(m.host, here.dev, other.host, there.dev, ""); err != nil {
			return nil, err
		}
		m.links, other.links = append(m.links, here), append(other.links, there)
		if err := errors.Join(m.connect(here), other.connect(there)); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Member) connect(k memberLink) error {
	return m.host.ip("link set dev "+k.dev+" up", "route replace "+k.peer+"/32 dev "+k.dev+" src "+m.addr())
}

// Isolate parts the member from the others; its clients still reach it.
func (m *Member) Isolate() {
	m.host.l.t.Helper()
	for _, k := range m.links {
		if err := m.host.ip("link set dev " + k.dev + " down"); err != nil {
			m.host.l.t.Fatalf("%s: %v", m.Name, err)
		}
	}
}

// Rejoin undoes Isolate.
func (m *Member) Rejoin() {
	m.host.l.t.Helper()
	for _, k := range m.links {
		if err := m.connect(k); err != nil {
			m.host.l.t.Fatalf("%s: %v", m.Name, err)
		}
	}
}

// Signal sends a signal, such as SIGSTOP for a member that hangs.
func (m *Member) Signal(sig os.Signal) {
	m.host.l.t.Helper()
	if err := m.d.proc.Signal(sig); err != nil {
		m.host.l.t.Fatalf("%s: %v", m.Name, err)
	}
}

// SBCTL is [Lab.SBCTL] with this member alone: among all of them it would try one
// that hangs. It fails while the member is cut off from the others.
func (m *Member) SBCTL(args ...string) error {
	_, err := m.host.Exec(context.Background(), append([]string{"ovn-sbctl", "--db=" + m.Endpoint, "--no-leader-only", timeoutFlag}, args...)...)
	return err
}

var (
	raftRole = regexp.MustCompile(`(?m)^Role: leader$`)
	raftTerm = regexp.MustCompile(`(?m)^Term: (\d+)$`)
	// The status of a member that knows no leader.
	raftLeaderless = regexp.MustCompile(`(?m)^Leader: unknown$`)
)

// term is that in which the member leads, or why it does not.
func (m *Member) term() (int, error) {
	out, err := m.d.ask(2*time.Second, "cluster/status", southbound)
	if err != nil {
		return 0, err
	}
	term := raftTerm.FindStringSubmatch(out)
	if !raftRole.MatchString(out) || term == nil {
		return 0, fmt.Errorf("%s does not lead:\n%s", m.Name, out)
	}
	return strconv.Atoi(term[1])
}

// AwaitCluster waits until all members of the Southbound cluster follow one leader. A
// member that has hung says that it is connected until it finds out otherwise, and may
// then have another leader elected: so each member commits a change first.
func (l *Lab) AwaitCluster() {
	l.t.Helper()
	for _, m := range l.Members {
		l.Eventually(m.Name+" commits", func() error {
			return m.SBCTL("set", "SB_Global", ".", "external_ids:lab="+strconv.FormatInt(time.Now().UnixNano(), 10))
		})
	}
	l.Eventually("one leader for all members", func() error {
		terms := map[string]bool{}
		for _, m := range l.Members {
			out, err := m.d.ask(2*time.Second, "cluster/status", southbound)
			if err != nil {
				return err
			}
			term := raftTerm.FindString(out)
			if terms[term] = true; len(terms) > 1 || term == "" || raftLeaderless.MatchString(out) {
				return fmt.Errorf("the status of %s:\n%s", m.Name, out)
			}
		}
		return nil
	})
}

// Leader waits until the Southbound cluster has one. Of two that take themselves
// for it the one elected later is right.
func (l *Lab) Leader() (leader *Member) {
	l.t.Helper()
	l.Eventually("a leader of the Southbound cluster", func() error {
		latest, errs := -1, []error(nil)
		for _, m := range l.Members {
			term, err := m.term()
			if err == nil && term > latest {
				leader, latest = m, term
			}
			errs = append(errs, err)
		}
		if leader == nil {
			return errors.Join(errs...)
		}
		return nil
	})
	return leader
}
