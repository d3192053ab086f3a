// SPDX-License-Identifier: Apache-2.0

package linked

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const mit = `Copyright (c) 2001 Somebody

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction,
including without limitation the rights to use, copy, modify, merge, publish, distribute,
sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or
substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT
NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM,
DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT
OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
`

const gpl = `This program is free software: you can redistribute it and/or modify it under the terms of the GNU
General Public License as published by the Free Software Foundation, either version 3 of the License,
or (at your option) any later version. This program is distributed in the hope that it will be
useful, but WITHOUT ANY WARRANTY; without even the implied warranty of MERCHANTABILITY or FITNESS FOR
A PARTICULAR PURPOSE. See the GNU General Public License for more details. You should have received a
copy of the GNU General Public License along with this program. If not, see
<https://www.gnu.org/licenses/>.
`

// TestTexts reads folders of a module.
func TestTexts(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  []string // names and licences
		err   string
	}{
		{"a licence", map[string]string{"LICENSE": mit}, []string{"LICENSE MIT"}, ""},
		{"other names", map[string]string{"licence.md": mit, "COPYING.lib": mit, "NOTICE.txt": "n", "AUTHORS": "a", "PATENTS": "p", "COPYRIGHT": "c"},
			[]string{"AUTHORS", "COPYING.lib MIT", "COPYRIGHT", "NOTICE.txt", "PATENTS", "licence.md MIT"}, ""},
		{"source is none", map[string]string{"LICENSE": mit, "license.go": "package license", "notice_test.go": "package license", "licenses.json": "{}"}, []string{"LICENSE MIT"}, ""},
		{"that of a package", map[string]string{"LICENSE": mit, "internal/diff/LICENSE": mit}, []string{"LICENSE MIT", "internal/diff/LICENSE MIT"}, ""},
		{"none", map[string]string{"README": mit}, nil, "no licence file in the folder of m"},
		{"a notice only", map[string]string{"NOTICE": mit}, nil, "no licence file in the folder of m"},
		{"that of a package only", map[string]string{"internal/diff/LICENSE": mit}, nil, "no licence file in the folder of m"},
		{"a licence that is not allowed", map[string]string{"LICENSE": gpl}, nil, "LICENSE has the licence GPL-3.0"},
		{"one of a package that is not allowed", map[string]string{"LICENSE": mit, "internal/diff/COPYING": gpl}, nil, "internal/diff/COPYING has the licence GPL-3.0"},
		{"one beside that", map[string]string{"LICENSE": mit + gpl}, nil, "LICENSE has the licence GPL-3.0"},
		{"words", map[string]string{"LICENSE": "Ask me."}, nil, "LICENSE: 0 % of it is text of known licences"},
		{"mostly words", map[string]string{"LICENSE": mit + strings.Repeat("You may not use this on a Sunday. ", 20)}, nil, "LICENSE: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			folders := []folder{{root, "."}}
			for name, text := range tt.files {
				dir := filepath.Join(root, filepath.Dir(name))
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				if dir != root {
					folders = append(folders, folder{dir, filepath.Dir(name)})
				}
				if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			all, err := texts("m", folders)
			if tt.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tt.err) {
					t.Errorf("%v, want %s", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, text := range all {
				got = append(got, strings.Join(append([]string{text.Name}, text.Licences...), " "))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
