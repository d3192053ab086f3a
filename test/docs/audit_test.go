// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/test/lab"
	"github.com/puntdns/puntdns/test/pages"
)

// The commands of docs/audit.md that search an audit log find what they should.
func TestDocumentedSearch(t *testing.T) {
	if _, err := exec.LookPath("jq"); err != nil {
		lab.Lack(t, "there is no jq: %v", err)
	}
	_, blocks := pages.Section(t, root, "docs/audit.md#asking-it", "sh")
	dir, commands := t.TempDir(), ""
	for _, b := range blocks {
		commands += strings.ReplaceAll(b.Text, "/var/log/puntdns", ".")
	}
	const port = "b7a5e2c4-6a0b-4c5e-9f7b-2f1d9f0c1a55"
	query := func(seq, at, port, name string) string {
		return `{"seq":` + seq + `,"event":"query","time":"2026-03-02T` + at + `.000000Z","port":"` + port + `","name":"` + name + `","client":"10.0.0.5","type":"A","rcode":"NOERROR","project":"red"}` + "\n"
	}
	for file, lines := range map[string]string{
		"audit.json.20260302T090000.000000Z": `{"seq":1,"event":"start","time":"2026-03-02T07:00:00.000000Z"}` + "\n" +
			query("2", "07:59:59", port, "www.example.org.") + query("3", "08:00:00", "other", "WWW.Example.org."),
		"audit.json": query("4", "09:00:00", port, "a.www.example.org.") + query("5", "09:00:01", port, "notwww.example.org.") +
			`{"seq":8,"event":"lost","time":"2026-03-02T09:00:02.000000Z","lines":2}` + "\n" + query("11", "12:00:00", port, "www.example.org."),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("sh", "-e", "-c", commands)
	cmd.Dir = dir
	got, err := cmd.CombinedOutput()
	const want = `{"time":"2026-03-02T08:00:00.000000Z","project":"red","port":"other","client":"10.0.0.5","type":"A","rcode":"NOERROR"}
{"time":"2026-03-02T09:00:00.000000Z","project":"red","port":"b7a5e2c4-6a0b-4c5e-9f7b-2f1d9f0c1a55","client":"10.0.0.5","type":"A","rcode":"NOERROR"}
      2 www.example.org.
      1 notwww.example.org.
      1 a.www.example.org.
{"seq":1,"event":"start","time":"2026-03-02T07:00:00.000000Z"}
{"seq":8,"event":"lost","time":"2026-03-02T09:00:02.000000Z","lines":2}
2026-03-02T09:00:02.000000Z: 2 lines are missing before number 8
2026-03-02T12:00:00.000000Z: 2 lines are missing before number 11
`
	if err != nil || string(got) != want {
		t.Errorf("%v:\n%s\nwant\n%s", err, got, want)
	}
}
