// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A line that is wrong ends in this comment; puntdns has to name it.
const wrongLine = "# here"

// corefileRefusals has a Corefile for each plugin that must not start, refused by the parser, by the
// compiled servers or by what a start opens first. The tests of a plugin have all that it refuses.
// want is what the error names behind the place. OF, OVSDB and SB are endpoints where somebody
// listens.
var corefileRefusals = []struct{ name, text, want string }{
	{"ofpunt", ". {\n ofpunt br-int { # here\n openflow OF\n ovsdb OVSDB\n }\n ovnhosts {\n southbound SB\n }\n}\n" +
		"other.test {\n ofpunt br-int { # here\n openflow OF\n ovsdb OVSDB\n arp off\n }\n whoami\n}", `ofpunt br-int: .*\(arp\)`},
	{"ovnhosts", withOfpunt("ovnhosts {\n southbound SB\n tls /no/cert.pem /no/key.pem /no/ca.pem # here\n}"), "ovnhosts: tls: .*/no/cert.pem"},
	{"neutronhosts", withOfpunt("neutronhosts {\n path dhcp # here\n}"), `path: "dhcp"`},
	{"rpz", withOfpunt("ovnhosts {\n southbound SB\n }\n rpz {\n required\n zone a file /no/zone # here\n}"), `zone a\.: .*/no/zone`},
	{"egress", withOfpunt("egress {\n strict on\n policy ofpunt/port vm1 {\n allow a..b # here\n }\n}"), `allow: "a\.\.b"`},
	{"ovnforward", withOfpunt("ovnhosts {\n southbound SB\n }\n ovnforward # here"), "ovnforward: .*Northbound"},
	{"private", withOfpunt("private {\n single_labels perhaps # here\n}"), `single_labels: "perhaps"`},
	{"passthrough", withOfpunt("passthrough all # here"), `"all".*passthrough`},
	{"audit", withOfpunt("audit audit.json # here"), `"audit.json"`},
	{"ready", withOfpunt("ready localhost # here"), `"localhost"`},
}

// withOfpunt is a Corefile with directives beside ofpunt.
func withOfpunt(directives string) string {
	return ". {\n ofpunt br-int {\n openflow OF\n ovsdb OVSDB\n }\n " + directives + "\n}"
}

func TestCorefileRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range corefileRefusals {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var listeners []*tapEndpoint
			text := tc.text
			for _, name := range []string{"OF", "OVSDB", "SB"} {
				ln := listenUnix(t, filepath.Join(dir, name))
				listeners = append(listeners, ln)
				text = regexp.MustCompile(`\b`+name+`\b`).ReplaceAllString(text, "unix:"+ln.path)
			}
			path := filepath.Join(dir, "Corefile.wrong")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}

			said, err := run(t, "-conf", path)
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Errorf("ended with %v, want exit status 1", err)
			}
			// The whole error stands in the last line, as log collectors show it.
			said = strings.TrimSpace(said)
			said = said[strings.LastIndexByte(said, '\n')+1:]
			var where []string
			for i, line := range strings.Split(text, "\n") {
				if strings.HasSuffix(line, wrongLine) {
					where = append(where, path+":"+strconv.Itoa(i+1))
				}
			}
			for _, w := range where {
				if !regexp.MustCompile(regexp.QuoteMeta(w) + `\b`).MatchString(said) {
					t.Errorf("%q does not name %s in\n%s", said, w, text)
				}
			}
			if len(where) == 0 {
				t.Error("the table marks no line")
			}
			if !regexp.MustCompile(tc.want).MatchString(said) {
				t.Errorf("%q does not match %q", said, tc.want)
			}
			// Nothing was half started.
			for _, ln := range listeners {
				ln.untouched(t)
			}
		})
	}
}

// tapEndpoint is an endpoint that nobody should call.
type tapEndpoint struct {
	*net.UnixListener
	path string
}

func listenUnix(t *testing.T, path string) *tapEndpoint {
	t.Helper()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return &tapEndpoint{ln, path}
}

// untouched calls itself: the calls wait in order, so the first to be taken must
// be this one.
func (ln *tapEndpoint) untouched(t *testing.T) {
	t.Helper()
	mine, err := net.Dial("unix", ln.path)
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	if _, err := mine.Write([]byte("mine")); err != nil {
		t.Fatal(err)
	}
	first, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	buf := make([]byte, 64)
	// The caller has ended, so that its side is closed if it is not ours.
	n, _ := first.Read(buf)
	if string(buf[:n]) != "mine" {
		t.Errorf("%s was called, %q came", ln.path, buf[:n])
	}
}
