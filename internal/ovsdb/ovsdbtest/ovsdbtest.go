// SPDX-License-Identifier: Apache-2.0

// Package ovsdbtest runs a real ovsdb-server for tests.
package ovsdbtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/testkit"
)

type Server struct {
	// Endpoint is unix:PATH.
	Endpoint string
	Dir      string

	path string
	args []string
	dbs  []database
	// clustered servers may apply a transaction again after an election.
	clustered bool

	daemon *testkit.Daemon
}

type database struct {
	file   string
	create []string
}

// Start runs a server with one database for each schema, a path or the schema itself. The server ends with
// the test.
func Start(t testing.TB, schemas ...string) *Server {
	t.Helper()
	return StartArgs(t, nil, schemas...)
}

// StartArgs is Start with more arguments, such as --remote=ptcp:0:127.0.0.1.
func StartArgs(t testing.TB, args []string, schemas ...string) *Server {
	t.Helper()
	s := newServer(t, args)
	for i, schema := range schemas {
		if strings.HasPrefix(schema, "{") {
			file := filepath.Join(s.Dir, fmt.Sprintf("%d.ovsschema", i))
			if err := os.WriteFile(file, []byte(schema), 0o600); err != nil {
				t.Fatal(err)
			}
			schema = file
		}
		file := filepath.Join(s.Dir, fmt.Sprintf("%d.db", i))
		s.dbs = append(s.dbs, database{file, []string{"create", file, schema}})
	}
	s.Empty(t)
	s.Start(t)
	return s
}

func StartCluster(t testing.TB, n int, schema string) []*Server {
	t.Helper()
	schemaFile := schema
	if strings.HasPrefix(schema, "{") {
		schemaFile = filepath.Join(t.TempDir(), "ovsschema")
		if err := os.WriteFile(schemaFile, []byte(schema), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	name := run(t, "ovsdb-tool", "schema-name", schemaFile)
	var all []*Server
	for i := range n {
		s := newServer(t, nil)
		file, raft := filepath.Join(s.Dir, "0.db"), "unix:"+filepath.Join(s.Dir, "raft")
		create := []string{"create-cluster", file, schemaFile, raft}
		if i > 0 {
			create = []string{"join-cluster", file, name, raft, "unix:" + filepath.Join(all[0].Dir, "raft")}
		}
		s.dbs, s.clustered = []database{{file, create}}, true
		s.Empty(t)
		s.Start(t)
		// A client leaves a server that listens before it has joined.
		run(t, "ovsdb-client", "--timeout=30", "wait", s.Endpoint, name, "connected")
		all = append(all, s)
	}
	return all
}

func StartRelay(t testing.TB, database string, of ...*Server) *Server {
	t.Helper()
	endpoints := make([]string, len(of))
	for i, s := range of {
		endpoints[i] = s.Endpoint
	}
	s := newServer(t, []string{"relay:" + database + ":" + strings.Join(endpoints, ",")})
	s.Start(t)
	return s
}

func newServer(t testing.TB, args []string) *Server {
	// t.TempDir is too long for the path of a socket.
	dir, err := os.MkdirTemp("", "ovsdb")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Dir: dir, path: filepath.Join(dir, "sock"), args: args}
	s.Endpoint = "unix:" + s.path
	t.Cleanup(func() {
		s.Stop(t)
		_ = os.RemoveAll(dir)
	})
	return s
}

// Empty makes the databases anew. The server must not be running.
func (s *Server) Empty(t testing.TB) {
	t.Helper()
	for _, db := range s.dbs {
		if err := os.Remove(db.file); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		run(t, "ovsdb-tool", db.create...)
	}
}

func run(t testing.TB, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", program, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (s *Server) Start(t testing.TB) {
	t.Helper()
	args := []string{"--no-chdir", "--verbose=console:info", "--remote=punix:" + s.path, "--unixctl=" + filepath.Join(s.Dir, "ctl")}
	args = append(args, s.args...)
	for _, db := range s.dbs {
		args = append(args, db.file)
	}
	cmd := exec.Command("ovsdb-server", args...)
	cmd.Env = append(os.Environ(), "OVS_RUNDIR="+s.Dir, "OVS_LOGDIR="+s.Dir)
	var err error
	if s.daemon, err = testkit.StartDaemon(cmd); err != nil {
		t.Fatal(err)
	}
	s.until(t, "it listens", func() bool {
		conn, err := net.Dial("unix", s.path)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if s.daemon == nil {
		return
	}
	s.daemon.Kill()
	s.daemon = nil
	_ = os.Remove(s.path)
}

func (s *Server) Signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := s.daemon.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

var listening = regexp.MustCompile(`listening on port (\d+)`)

func (s *Server) Port(t testing.TB) (port string) {
	t.Helper()
	s.until(t, "it names its port", func() bool {
		m := listening.FindStringSubmatch(s.daemon.Output.String())
		if m != nil {
			port = m[1]
		}
		return m != nil
	})
	return port
}

func (s *Server) until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	testkit.Eventually(t, "ovsdb-server: "+what, func() error {
		if ok() {
			return nil
		}
		select {
		case <-s.daemon.Ended():
			t.Fatalf("ovsdb-server ended before %s: %s", what, &s.daemon.Output)
		default:
		}
		return errors.New(s.daemon.Output.String())
	})
}

// Transact runs operations (RFC 7047 section 5.2), which encode as JSON. An error fails the test.
func (s *Server) Transact(t testing.TB, db string, ops ...any) []json.RawMessage {
	t.Helper()
	conn, err := net.Dial("unix", s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(testkit.Patience)); err != nil {
		t.Fatal(err)
	}
	params := append([]any{db}, ops...)
	if err := json.NewEncoder(conn).Encode(map[string]any{"method": "transact", "params": params, "id": 1}); err != nil {
		t.Fatal(err)
	}
	var reply struct {
		Result []json.RawMessage `json:"result"`
		Error  json.RawMessage   `json:"error"`
	}
	if err := json.NewDecoder(bufio.NewReader(conn)).Decode(&reply); err != nil {
		t.Fatal(err)
	}
	if len(reply.Error) > 0 && string(reply.Error) != "null" {
		t.Fatalf("transact: %s", reply.Error)
	}
	for i, r := range reply.Result {
		if s.clustered && bytes.Contains(r, []byte(`"duplicate uuid"`)) {
			return nil // all of it has been committed before
		}
		// The error of an operation, or of the commit after them.
		if bytes.Contains(r, []byte(`"error":`)) {
			t.Fatalf("transact: operation %d: %s", i, r)
		}
	}
	return reply.Result
}
