// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/puntdns/puntdns/internal/puntctl"
)

// manualEpoch is the time of the manual pages that are made here, in seconds.
const manualEpoch = "1700000000"

// made has the folder of the manual pages, which the first test that needs them makes.
var made struct {
	sync.Mutex
	folder string // empty as long as there is none
}

// TestMain removes what the tests have made for each other.
func TestMain(m *testing.M) {
	code := m.Run()
	if err := os.RemoveAll(made.folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// manual returns the folder that man.sh writes: manual pages in man/, and completions.
func manual(t *testing.T) string {
	t.Helper()
	made.Lock()
	defer made.Unlock()
	if made.folder != "" {
		return made.folder
	}
	folder, err := os.MkdirTemp("", "puntdns-manual-")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("package/man.sh", "1.2.3", folder)
	cmd.Env = append(os.Environ(), "GO=go", "MD2MAN="+goProgram(t, "MD2MAN"), "SOURCE_DATE_EPOCH="+manualEpoch)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("man.sh: %v\n%s", err, out)
	}
	made.folder = folder
	return folder
}

// manualPages are the manual pages that there have to be, as man8/puntdns.8: those of the programs, of
// each command of puntctl, and of each plugin of this project.
func manualPages(t *testing.T) []string {
	t.Helper()
	all := []string{"man8/puntdns.8", "man1/puntctl.1", "man7/puntdns-ofpunt.7"}
	for _, command := range puntctl.New("").Commands() {
		for _, c := range append(command.Commands(), command) {
			if c.IsAvailableCommand() {
				all = append(all, "man1/"+strings.ReplaceAll(c.CommandPath(), " ", "-")+".1")
			}
		}
	}
	readmes, err := filepath.Glob("../plugin/*/README.md")
	if err != nil || len(readmes) == 0 {
		t.Fatalf("no plugins: %v", err)
	}
	for _, readme := range readmes {
		all = append(all, "man7/puntdns-"+filepath.Base(filepath.Dir(readme))+".7")
	}
	slices.Sort(all)
	return all
}

// Each program and plugin has a manual page with a name and a synopsis, that man(1) shows without a
// warning, and no page refers to one of ours that there is not.
func TestManualPages(t *testing.T) {
	man, lexgrog := need(t, "man"), need(t, "lexgrog")
	folder, want := manual(t), manualPages(t)
	var got []string
	err := filepath.WalkDir(filepath.Join(folder, "man"), func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			got = append(got, strings.TrimSuffix(strings.TrimPrefix(path, filepath.Join(folder, "man")+"/"), ".gz"))
		}
		return err
	})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v: the pages are %q, want %q", err, got, want)
	}
	known := map[string]bool{}
	for _, page := range want {
		name, section, _ := strings.Cut(filepath.Base(page), ".")
		known[name+"("+section+")"] = true
	}
	for _, page := range want {
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(folder, "man", page+".gz")
			name := strings.TrimSuffix(filepath.Base(page), filepath.Ext(page))
			if got := command(t, lexgrog, path); !regexp.MustCompile(`: "` + regexp.QuoteMeta(name) + ` - .+[^.]"\n$`).MatchString(got) {
				t.Errorf("whatis(1) would read %s", got)
			}
			text := shown(t, man, path)
			sections := regexp.MustCompile(`(?m)^[A-Z][A-Za-z ,()-]*$`).FindAllString(text, -1)
			if len(sections) < 4 || !slices.Equal(sections[:3], []string{"NAME", "SYNOPSIS", "DESCRIPTION"}) || sections[len(sections)-1] != "SEE ALSO" {
				t.Errorf("its sections are %q", sections)
			}
			for _, reference := range regexp.MustCompile(`\bpunt(?:dns|ctl)[a-z-]*\([0-9]\)`).FindAllString(text, -1) {
				if !known[reference] {
					t.Errorf("there is no %s", reference)
				}
			}
		})
	}
}

// The page of puntctl says what each of its commands is for.
func TestManualPageOfCommands(t *testing.T) {
	text := strings.Join(strings.Fields(shown(t, need(t, "man"), filepath.Join(manual(t), "man", "man1", "puntctl.1.gz"))), " ")
	for _, c := range puntctl.New("").Commands() {
		if c.IsAvailableCommand() && !strings.Contains(text, c.Name()+" "+c.Short) {
			t.Errorf("it has no line %q for %s", c.Short, c.Name())
		}
	}
}

// shown returns what man(1) shows of a page, and wants that it warns of nothing.
func shown(t *testing.T, man, path string) string {
	t.Helper()
	cmd := exec.Command(man, "--warnings=w", "--encoding=UTF-8", "--local-file", path)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "MANWIDTH=80", "MAN_KEEP_FORMATTING=", "MANROFFOPT=-c")
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil || stderr.Len() > 0 {
		t.Errorf("%v\n%s", err, stderr.String())
	}
	return stdout.String()
}
