// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/testkit/golden"
)

// commandsOf returns a command and all commands below it.
func commandsOf(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		all = append(all, commandsOf(sub)...)
	}
	return all
}

// Each command has examples, and its options and arguments accept them.
func TestExamples(t *testing.T) {
	for _, c := range commandsOf(New("")) {
		if c.Example == "" {
			t.Errorf("%s has no example", c.Name())
		}
		for line := range strings.Lines(c.Example) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " | ")
			words := strings.Fields(strings.ReplaceAll(line, "'", ""))
			root := New("")
			found, args, err := root.Find(words[1:])
			if err == nil {
				err = found.ParseFlags(args)
			}
			if err == nil {
				err = found.ValidateArgs(found.Flags().Args())
			}
			if err != nil || words[0] != "puntctl" || !strings.HasPrefix(found.CommandPath()+" ", c.CommandPath()+" ") {
				t.Errorf("%s: %s: %v", c.CommandPath(), line, err)
			}
		}
	}
}

// The help of each command fits 80 columns.
func TestHelpWidth(t *testing.T) {
	for _, c := range commandsOf(New("")) {
		var out bytes.Buffer
		Run("1.2.3", append(strings.Fields(c.CommandPath())[1:], "--help"), &out, io.Discard)
		if !strings.Contains(out.String(), c.Long) {
			t.Errorf("%s --help has another text: %s", c.CommandPath(), &out)
		}
		for line := range strings.Lines(out.String()) {
			if n := widthOf(strings.TrimSuffix(line, "\n")); n > helpWidth {
				t.Errorf("%s --help: %d columns: %s", c.CommandPath(), n, line)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	var command, option bytes.Buffer
	Run("1.2.3", []string{"version"}, &command, io.Discard)
	Run("1.2.3", []string{"--version"}, &option, io.Discard)
	if command.String() != option.String() || !strings.Contains(command.String(), "1.2.3") {
		t.Errorf("%q and %q", command.String(), option.String())
	}
}

// An error names the argument or the option that it is about.
func TestErrorsNameArguments(t *testing.T) {
	socket := process(t, map[string]any{api.PathStatus: wellStatus(), api.PathGuests: someGuests(), api.PathNames: someNames()})
	said := ""
	for _, tt := range []struct{ args, names string }{
		{"guests nobody", "PORT|SWITCH "}, {"doctor nobody", "PORT|SWITCH "}, {"guests --switch nobody", "--switch "},
		{"guests a b", `"b"`}, {"explain red-vm1", "NAME "}, {"explain", "PORT "}, {"explain a b c d", `"d"`}, {"version x", `"x"`},
		{"watch --rate x", "--rate "}, {"watch -n x", "--count "}, {"watch -n 0", "--count "}, {"top --by x", "--by "}, {"top --reconnect x", "--reconnect "},
		{"status -o xml", "--output "}, {"explain a b --tcp=x", "--tcp "}, {"watch --nosuch", "--nosuch"},
		{"egress", "COMMAND "}, {"egress inti", "COMMAND "}, {"egress init", "GROUP "}, {"egress init a b", `"b"`},
		{"egress init my-group", "GROUP "}, {"egress init 1a", "GROUP "}, {"egress init a$b", "GROUP "}, {"egress init " + strings.Repeat("a", 64) + " --log info", "GROUP "},
		{"egress init a --bit 32", "--bit "}, {"egress init a --bit 0", "--bit "}, {"egress init a --log verbose", "--log "}, {"egress init a -o json", "--output "},
		{"egress init a --resolver name", "--resolver "}, {"egress init a --resolver fe80::1%eth0", "--resolver "}, {"egress init a --resolver ::ffff:10.0.0.1", "--resolver "},
		{"egress init a --resolver 10.0.0.1:0", "--resolver "},
	} {
		var errs bytes.Buffer
		status := Run("1.2.3", append(strings.Fields(tt.args), "--socket", socket), io.Discard, &errs)
		if status == exitWell || !strings.Contains(errs.String(), tt.names) {
			t.Errorf("%s: exit status %d, %q has no %s", tt.args, status, errs.String(), tt.names)
		}
		said += fmt.Sprintf("puntctl %s\n%s", tt.args, errs.String())
	}
	golden.Check(t, said)
}

// named keeps the exit status. The process names a parameter, or quotes the first argument.
func TestNamed(t *testing.T) {
	explain, watch, err := New("").Commands()[0], New("").Commands()[0], error(nil)
	for _, c := range New("").Commands() {
		switch c.Name() {
		case "explain":
			explain = c
		case "watch":
			watch = c
		}
	}
	for _, tt := range []struct {
		cmd       *cobra.Command
		err, want string
	}{
		{explain, `"x": no guest`, `PORT "x": no guest`}, {explain, `name "a..b": expected`, `NAME "a..b": expected`}, {explain, `server "x": expected`, `--server "x": expected`},
		{watch, `name "a..b": expected`, `--name "a..b": expected`}, {watch, `rate "0": expected`, `--rate "0": expected`}, {watch, "/run/s: no", "/run/s: no"},
	} {
		err = named(tt.cmd, &exitError{status: exitUnwell, err: fmt.Errorf("%s", tt.err)})
		if exit, ok := err.(*exitError); !ok || exit.status != exitUnwell || err.Error() != tt.want {
			t.Errorf("%s: %q, want %q", tt.err, err, tt.want)
		}
	}
}

func TestCompletion(t *testing.T) {
	s := control.New()
	s.Answer(api.PathGuests, func(context.Context, url.Values) (any, error) { return someGuests(), nil })
	s.Answer(api.PathNames, func(_ context.Context, p url.Values) (any, error) {
		if p.Get("of") != "blue-vm1" {
			return nil, control.NotFound("there is no %q", p.Get("of"))
		}
		return someNames(), nil
	})
	socket, _ := streamsOf(t, s, api.PathWatch)
	silent := filepath.Join(t.TempDir(), "silent.sock") // accepts, and never answers
	l, err := net.Listen("unix", silent)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, tt := range []struct{ args, socket, want string }{
		{"guests", socket, "blue blue-vm1 red tap1"},
		{"names", socket, "blue blue-vm1 red tap1"},
		{"doctor", socket, "blue blue-vm1 red tap1"},
		{"guests blue", socket, ""},
		{"explain", socket, "blue-vm1 tap1"},
		{"explain blue-vm1", socket, "peer."},
		{"explain nobody", socket, ""},
		{"watch --port", socket, "blue-vm1 tap1"},
		{"guests --switch", socket, "blue red"},

		{"egress list", socket, "blue blue-vm1 red tap1"},
		{"egress policies", socket, ""},
		{"egress init", socket, ""},
		{"egress init sandboxes --log", socket, "alert warning notice info debug"},
		{"guests", filepath.Join(t.TempDir(), "none.sock"), ""},
		{"guests", silent, ""},
	} {
		var out bytes.Buffer
		begun := time.Now()
		words := strings.Fields(tt.args)
		Run("1.2.3", append(append([]string{"__complete", "--socket", tt.socket}, words...), ""), &out, io.Discard)
		got := strings.Fields(out.String())
		if directive := got[len(got)-1]; directive != ":4" || strings.Join(got[:len(got)-1], " ") != tt.want {
			t.Errorf("%s: %q, want %q", tt.args, got, tt.want)
		}
		if took := time.Since(begun); took > askTimeout/2 {
			t.Errorf("%s has taken %s", tt.args, took)
		}
	}
}
