// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy"
	clog "github.com/coredns/coredns/plugin/pkg/log"

	"github.com/puntdns/puntdns/internal/auditlog"
	"github.com/puntdns/puntdns/internal/testkit"
)

func TestParse(t *testing.T) {
	config := func(queue, size int64, age time.Duration, keep int, keepAge time.Duration) auditlog.Config {
		return auditlog.Config{Queue: queue, Rotation: auditlog.Rotation{Size: size, Age: age, Keep: keep, KeepAge: keepAge}}
	}
	const file = "audit /var/log/puntdns/audit.json "
	tests := []struct {
		name, text string
		want       auditlog.Config
		fields     int
		err        string
	}{
		{"alone", file, defaultConfig, 20, ""},
		{"rotate by size", file + "{\n rotate 1GiB\n}", config(16<<20, 1<<30, 0, 10, 0), 20, ""},
		{"rotate by age", file + "{\n rotate 1d\n}", config(16<<20, 0, 24*time.Hour, 10, 0), 20, ""},
		{"rotate by both", file + "{\n rotate 24h 64KiB\n}", config(16<<20, 64<<10, 24*time.Hour, 10, 0), 20, ""},
		{"no rotation", file + "{\n rotate off\n}", config(16<<20, 0, 0, 10, 0), 20, ""},
		{"keep a number", file + "{\n keep 0\n}", config(16<<20, 100<<20, 0, 0, 0), 20, ""},
		{"keep all for some time", file + "{\n keep all 30d\n}", config(16<<20, 100<<20, 0, -1, 30*24*time.Hour), 20, ""},
		{"a queue", "audit unix:/run/audit {\n queue 64KiB\n}", config(64<<10, 100<<20, 0, 10, 0), 20, ""},
		{"fields", file + "{\n fields name port\n}", defaultConfig, 2, ""},
		{"default and more", file + "{\n fields default mac project={/ofpunt/external-id/neutron:project_id}\n}", defaultConfig, 22, ""},

		{"no target", "audit", auditlog.Config{}, 0, "expected an absolute path, unix:PATH or tcp:HOST:PORT"},
		{"a relative path", "audit audit.json", auditlog.Config{}, 0, `"audit.json": expected an absolute path`},
		{"two targets", file + "/b", auditlog.Config{}, 0, "expected an absolute path"},
		{"an unknown property", file + "{\n sync on\n}", auditlog.Config{}, 0, `Testfile:2 - Error during parsing: unknown property "sync", expected one of [fields keep queue rotate]`},
		{"no field", file + "{\n fields\n}", auditlog.Config{}, 0, "fields: expected default, names of fields, or NAME={/LABEL}"},
		{"an unknown field", file + "{\n fields qname\n}", auditlog.Config{}, 0, `fields: "qname": expected default, NAME={/LABEL}, or one of [answers bridge`},
		{"a field twice", file + "{\n fields default name\n}", auditlog.Config{}, 0, `"name": there is a field of that name already`},
		{"a field of each line", file + "{\n fields time={/a/b}\n}", auditlog.Config{}, 0, `"time": there is a field of that name already`},
		{"a label without a name", file + "{\n fields {/ofpunt/port}\n}", auditlog.Config{}, 0, `"{/ofpunt/port}": expected default, NAME={/LABEL}`},
		{"no label", file + "{\n fields a={/ofpunt}\n}", auditlog.Config{}, 0, `"a={/ofpunt}": expected`},
		{"a size that is small", file + "{\n rotate 1KiB\n}", auditlog.Config{}, 0, "expected off, a size from 64KiB, an age from 1m, or both"},
		{"a size without a unit", file + "{\n rotate 100\n}", auditlog.Config{}, 0, "expected off, a size"},
		{"two sizes", file + "{\n rotate 1MiB 2MiB\n}", auditlog.Config{}, 0, "expected off, a size"},
		{"rotate without a word", file + "{\n rotate\n}", auditlog.Config{}, 0, "expected off, a size"},
		{"keep a negative number", file + "{\n keep -1\n}", auditlog.Config{}, 0, "keep: [\"-1\"]: expected the number of old files, or all"},
		{"keep for a moment", file + "{\n keep 1 1s\n}", auditlog.Config{}, 0, "how old they may become, from 1m"},
		{"keep beside rotate off", file + "{\n rotate off\n keep 3\n}", auditlog.Config{}, 0, "Testfile:3 - audit /var/log/puntdns/audit.json: keep: somebody else rotates the file"},
		{"rotate a socket", "audit unix:/run/audit {\n rotate 1MiB\n}", auditlog.Config{}, 0, "Testfile:2 - audit unix:/run/audit: rotate: unix:/run/audit is a socket; expected a file"},
		{"a small queue", file + "{\n queue 1KiB\n}", auditlog.Config{}, 0, `queue: "1KiB": expected a size from 64KiB to 1GiB`},
		{"a large queue", file + "{\n queue 2GiB\n}", auditlog.Config{}, 0, "expected a size from 64KiB to 1GiB"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, err := parse(caddy.NewTestController("dns", tt.text))
			switch {
			case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
				t.Errorf("%v, want %s", err, tt.err)
			case tt.err == "" && (err != nil || h.config != tt.want || len(h.fields) != tt.fields):
				t.Errorf("%+v, %v, want %+v", h, err, tt.want)
			}
		})
	}
}

// Blocks of a target share properties, but not fields.
func TestBlocksOfOneTarget(t *testing.T) {
	block := func(properties string) *Handler {
		h, err := parse(caddy.NewTestController("dns", "audit /a {\n"+properties+"\n}"))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	for _, tt := range []struct {
		name, first, second string
		size                int64
		err                 string
	}{
		{"neither", "", "fields name", 100 << 20, ""},
		{"the first", "rotate 1MiB", "fields name", 1 << 20, ""},
		{"the second", "", "rotate 1MiB", 1 << 20, ""},
		{"both", "rotate 1MiB", "rotate 1MiB\nfields name", 1 << 20, ""},
		{"others", "rotate 1MiB", "rotate 2MiB", 0, "Testfile:1 - audit /a: other properties of this target than at Testfile:1, expected the same rotate, keep, queue, or none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first, second := block(tt.first), block(tt.second)
			err := second.agree([]*Handler{first})
			switch {
			case tt.err != "" && (err == nil || err.Error() != tt.err):
				t.Errorf("%v, want %s", err, tt.err)
			case tt.err == "" && (err != nil || first.config != second.config || first.config.Rotation.Size != tt.size):
				t.Errorf("%+v and %+v, %v, want %d bytes", first.config, second.config, err, tt.size)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for target, want := range map[string]string{
		filepath.Join(dir, "audit.json"):         "",
		"unix:" + filepath.Join(dir, "socket"):   "",
		filepath.Join(dir, "none", "audit.json"): "Testfile:1 - audit " + filepath.Join(dir, "none", "audit.json") + ": ",
		"audit.json":                             "expected an absolute path",
	} {
		err := Check(caddy.NewTestController("dns", "audit "+target), nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", target, err, want)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("a check makes %v", entries)
	}
}

func TestDnstapDropped(t *testing.T) {
	before := testkit.Value(t, dnstapDropped)
	dnstap := clog.NewWithPlugin("dnstap")
	dnstap.Warningf("Dropped dnstap messages: %d\n", uint32(7))
	dnstap.Warningf("%s", "something else")
	clog.NewWithPlugin("other").Warningf("Dropped dnstap messages: %d\n", uint32(1))
	if got := testkit.Value(t, dnstapDropped) - before; got != 7 {
		t.Errorf("%v are counted, want 7", got)
	}
}

// dnstap's source has the log format that dnstapListener reads.
func TestFormOfDnstapLog(t *testing.T) {
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/coredns/coredns/plugin/dnstap").Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "io.go"))
	if err != nil {
		t.Fatal(err)
	}
	const call = `Warningf("Dropped dnstap messages: %d\n", dropped)`
	if !bytes.Contains(source, []byte(call)) || !bytes.Contains(source, []byte("atomic.Uint32")) {
		t.Errorf("%s does not call %s with a uint32 any more", dir, call)
	}
}
