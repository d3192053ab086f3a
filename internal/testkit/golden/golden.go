// SPDX-License-Identifier: Apache-2.0

// Package golden compares what the product says with files in testdata, so that a changed sentence
// changes one such file and no test. `go test PACKAGE -update` writes the files.
package golden

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what the product says into testdata")

// messages has a text for each test that calls Check.
const messages = "testdata/messages.golden"

// texts are the messages by the names of the tests, nil before the first Check.
var (
	mu    sync.Mutex
	texts map[string]string
)

// Check compares a text with the text of the test in testdata/messages.golden, without the newline at its
// end. A test calls it once. pairs are as in strings.NewReplacer. They replace text that varies between runs
// or belongs to another package.
func Check(t *testing.T, got string, pairs ...string) {
	t.Helper()
	got = strings.TrimSuffix(strings.NewReplacer(pairs...).Replace(got), "\n")
	mu.Lock()
	defer mu.Unlock()
	if texts == nil {
		texts = map[string]string{}
		// A run of all tests writes no text of a test that is gone.
		if all := flag.Lookup("test.run").Value.String() == ""; !*update || !all {
			read(t)
		}
	}
	if *update {
		texts[t.Name()] = got
		write(t, messages, format(texts))
	}
	want, ok := texts[t.Name()]
	if !ok {
		t.Errorf("%s has no text of this test (go test -update adds it): %s", messages, got)
	} else if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got; go test -update changes it):\n%s", messages, diff)
	}
}

// Refusal checks the error of a Corefile. For an error of another package, want is a regular expression of
// what the error names, after the text from. Without want Refusal compares as Check does.
func Refusal(t *testing.T, err error, from, want string, pairs ...string) {
	t.Helper()
	switch {
	case err == nil:
		t.Error("taken")
	case want == "":
		Check(t, err.Error(), pairs...)
	case !regexp.MustCompile("^" + from + want).MatchString(err.Error()):
		t.Errorf("%v, want %s", err, want)
	}
}

// File compares a text with a whole file.
func File(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		write(t, path, got)
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; go test -update changes it):\n%s", path, diff)
	}
}

func read(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(messages)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	texts = parse(string(text))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// format writes the texts in the order of the names: a line with the name, then the lines of the
// text, each behind a tab.
func format(texts map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		b.WriteString(name + "\n\t" + strings.ReplaceAll(texts[name], "\n", "\n\t") + "\n")
	}
	return b.String()
}

func parse(file string) map[string]string {
	texts := map[string]string{}
	name := ""
	for line := range strings.Lines(file) {
		switch text, isText := strings.CutPrefix(line, "\t"); {
		case isText:
			texts[name] += text
		default:
			texts[name] = strings.TrimSuffix(texts[name], "\n")
			name = strings.TrimSuffix(line, "\n")
		}
	}
	texts[name] = strings.TrimSuffix(texts[name], "\n")
	delete(texts, "")
	return texts
}
