// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coredns/coredns/core/dnsserver"

	"github.com/puntdns/puntdns"
	"github.com/puntdns/puntdns/plugins"
	"github.com/puntdns/puntdns/test/pages"
)

// root is the folder of the project.
const root = "../.."

// asPuntdns in the environment makes this test's binary puntdns.
const asPuntdns = "PUNTDNS_DOCS_AS_PUNTDNS"

func TestMain(m *testing.M) {
	if os.Getenv(asPuntdns) != "" {
		puntdns.Run(puntdns.Distribution{Version: "0.0.0", Directives: plugins.Directives})
		os.Exit(0)
	}
	if err := dnsserver.SetDirectives(plugins.Directives); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// knownFlags returns the flags of puntdns, each with its hyphen.
func knownFlags(t *testing.T) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-help")
	cmd.Env = append(os.Environ(), asPuntdns+"=1")
	usage, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, usage)
	}
	var flags []string
	for _, flag := range found(`(?m)^  (-[a-z.-]+)`, string(usage)) {
		if !strings.HasPrefix(flag, "-test.") { // those of this test
			flags = append(flags, flag)
		}
	}
	return flags
}

func readPages(t *testing.T) []*pages.Page {
	t.Helper()
	all, err := pages.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// functions returns the names of all tests, scripts and fuzz targets, each behind its folder.
func functions(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if script, ok := strings.CutSuffix(filepath.Base(path), ".txtar"); ok && filepath.Base(filepath.Dir(path)) == "script" {
			all["test.TestScript/"+script] = true
		}
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		path, err = filepath.Rel(root, path)
		for _, name := range found(`(?m)^func ((?:Test|Fuzz)\w+)\(`, readFile(t, path)) {
			all[filepath.Dir(path)+"."+name] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
