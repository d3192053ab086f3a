// SPDX-License-Identifier: Apache-2.0

package linked

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// Allowed are the SPDX identifiers of the licences that linked code may have. They only demand that the
// program comes with their text, the notices, and the place of the source.
var Allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MPL-2.0"}

// Text is a file that has to accompany a program.
type Text struct {
	// Name is the path of the file within its module.
	Name string
	// Content is the text without trailing space.
	Content string
	// Licences are the sorted SPDX identifiers of the licences in the text. It is empty for a notice, a list
	// of authors or a grant of patents.
	Licences []string
	// Spans are the places of the licences in Content, in order.
	Spans []Span
}

// Span is a licence in a text, from the byte Start to the byte before End.
type Span struct {
	Licence    string
	Start, End int
}

var (
	licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)s?([-._].*)?$`)
	noticeFile  = regexp.MustCompile(`(?i)^(notice|patents|copyright|authors)([-._].*)?$`)
	// sourceFile matches source files whose name begins like the name of a licence file.
	sourceFile = regexp.MustCompile(`(?i)\.(go|s|c|h|sh|py|json|ya?ml|tmpl|tpl)$`)
)

// leastCovered is how much of a licence file has to be text of known licences, in percent. The rest may be a
// preface: LICENSE of go.yaml.in/yaml/v3 has 85.
const leastCovered = 80

// texts returns the licence files of a module in these folders. The error also says if the folder of the
// module has none.
func texts(module string, folders []folder) (all []Text, err error) {
	licensed := false
	var problems []error
	for _, f := range folders {
		in, err := f.texts()
		if err != nil {
			problems = append(problems, err)
		}
		all = append(all, in...)
		licensed = licensed || f.name == "." && slices.ContainsFunc(in, func(t Text) bool { return licenceFile.MatchString(t.Name) })
	}
	if !licensed {
		problems = append(problems, fmt.Errorf("no licence file in the folder of %s; expected one such as LICENSE", module))
	}
	slices.SortFunc(all, func(a, b Text) int { return strings.Compare(a.Name, b.Name) })
	return all, errors.Join(problems...)
}

// texts returns the licence files of one folder. The error names the files that classify refuses.
func (f folder) texts() (all []Text, err error) {
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, e := range entries {
		isLicence := licenceFile.MatchString(e.Name())
		if !isLicence && !noticeFile.MatchString(e.Name()) || !e.Type().IsRegular() || sourceFile.MatchString(e.Name()) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(f.path, e.Name()))
		if err != nil {
			return nil, err
		}
		t := Text{Name: filepath.ToSlash(filepath.Join(f.name, e.Name())), Content: strings.TrimRight(string(content), " \t\r\n")}
		if isLicence {
			if err := t.classify(); err != nil {
				problems = append(problems, err)
			}
		}
		all = append(all, t)
	}
	return all, errors.Join(problems...)
}

// classify finds the licences in a text. The error names a licence that is not allowed, or says that known
// licences cover too little of the text.
func (t *Text) classify() error {
	found := licensecheck.Scan([]byte(t.Content))
	ids := map[string]bool{}
	for _, m := range found.Match {
		if m.IsURL {
			continue // a URL only refers to a licence
		}
		if !slices.Contains(Allowed, m.ID) {
			return fmt.Errorf("%s has the licence %s; expected one of %s", t.Name, m.ID, strings.Join(Allowed, ", "))
		}
		ids[m.ID] = true
		t.Spans = append(t.Spans, Span{m.ID, m.Start, m.End})
	}
	if len(ids) == 0 || found.Percent < leastCovered {
		return fmt.Errorf("%s: %.0f %% of it is text of known licences; expected %d", t.Name, found.Percent, leastCovered)
	}
	t.Licences = slices.Sorted(maps.Keys(ids))
	return nil
}
