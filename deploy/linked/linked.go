// SPDX-License-Identifier: Apache-2.0

// Package linked lists the modules that are linked into a Go program, their dependencies, and their licences.
//
//	program ──debug/buildinfo──► modules and their versions
//	        ──go list──────────► packages, and where their source is ──► licence files
//
// The list follows the record of the linker in the program. The source comes from the module cache, so the
// program has to be built from this checkout, by the Go found here.
package linked

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// Std is the path of the module that stands for Go's standard library.
const Std = "std"

// Module is a module with at least one linked package.
type Module struct {
	// Path is the module path, or Std.
	Path string
	// Version is the version in go.mod, such as v1.2.3, or the Go version for Std, such as 1.2.3. It is empty
	// for the main module.
	Version string
	// Sum is the checksum in go.sum, such as h1:BASE64. It is empty for Std and the main module.
	Sum string
	// Needs are the sorted paths of the modules whose packages this module imports. Std is left out: all
	// modules import it.
	Needs []string
	// Texts are the licence files of the linked packages and of the folders above them, sorted by name. At
	// least one has a licence.
	Texts []Text
}

func (m *Module) String() string {
	if m.Version == "" {
		return m.Path
	}
	return m.Path + " " + m.Version
}

// Licences returns the sorted SPDX identifiers of the module's licences.
func (m *Module) Licences() []string {
	ids := map[string]bool{}
	for _, t := range m.Texts {
		for _, id := range t.Licences {
			ids[id] = true
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// Expression returns the SPDX licence expression (SPDX 2.3, annex D) for all modules together. If a module
// offers a choice of licences, Expression names all of them.
func Expression(modules []*Module) string {
	ids := map[string]bool{}
	for _, m := range modules {
		for _, id := range m.Licences() {
			ids[id] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(ids)), " AND ")
}

// ErrNoProgram means that a file is not a Go program.
var ErrNoProgram = errors.New("no program of Go")

// Read returns the modules of a program: the main module first, then sorted by path. The error is
// ErrNoProgram for any other file. The error names each module that has no licence file, or a licence outside
// Allowed.
func Read(file string) ([]*Module, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", file, ErrNoProgram, err)
	}
	packages, err := list(info)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	modules := recorded(info)
	if err := compare(modules, packages); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	link(modules, packages)
	var problems []error
	for _, m := range modules {
		if m.Texts, err = texts(m.Path, foldersOf(m, packages)); err != nil {
			problems = append(problems, fmt.Errorf("%s: %s: %w", file, m, err))
		}
	}
	return modules, errors.Join(problems...)
}

// recorded returns the modules that the linker has recorded, without Texts and Needs.
func recorded(info *debug.BuildInfo) []*Module {
	all := []*Module{{Path: Std, Version: strings.TrimPrefix(goVersion(info.GoVersion), "go")}}
	for _, d := range info.Deps {
		d = cmp.Or(d.Replace, d)
		all = append(all, &Module{Path: d.Path, Version: d.Version, Sum: d.Sum})
	}
	slices.SortFunc(all, func(a, b *Module) int { return strings.Compare(a.Path, b.Path) })
	return append([]*Module{{Path: info.Main.Path}}, all...)
}

// goVersion returns a Go version without the experiments that may follow it.
func goVersion(text string) string {
	version, _, _ := strings.Cut(text, " ")
	return version
}

// pkg is a package as go list prints it.
type pkg struct {
	ImportPath string
	Dir        string
	Standard   bool
	Imports    []string
	ImportMap  map[string]string // package paths by import paths, where they differ
	Module     *struct {
		Path, Version, Dir string
		Main               bool
		Replace            *struct{ Path, Version string }
	}
	// root is the folder of the module, or of Go.
	root string
}

func (p *pkg) module() string {
	switch {
	case p.Standard:
		return Std
	case p.Module.Replace != nil:
		return p.Module.Replace.Path
	}
	return p.Module.Path
}

// list returns the packages of a program by path, for the platform and the tags of the program.
func list(info *debug.BuildInfo) (map[string]*pkg, error) {
	env := os.Environ()
	args := []string{"list", "-deps", "-json=ImportPath,Dir,Standard,Imports,ImportMap,Module"}
	for _, s := range info.Settings {
		switch {
		case s.Key == "-tags":
			args = append(args, "-tags", s.Value)
		case s.Key == "GOEXPERIMENT" && strings.Contains(s.Value, "boringcrypto"):
			return nil, errors.New("built with GOEXPERIMENT=boringcrypto, which links an object file under other licences; expected none")
		case strings.HasPrefix(s.Key, "GO"), s.Key == "CGO_ENABLED":
			env = append(env, s.Key+"="+s.Value)
		}
	}
	out, err := run("", env, "env", "GOVERSION", "GOROOT")
	if err != nil {
		return nil, err
	}
	version, root, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if goVersion(version) != goVersion(info.GoVersion) {
		return nil, fmt.Errorf("built by %s; expected %s, which is found here", info.GoVersion, version)
	}
	// The go.mod of the program decides which versions are linked, not the go.mod of this package.
	if out, err = run("", env, "list", "-m", "-f", "{{.Dir}}", info.Main.Path); err != nil {
		return nil, err
	}
	if out, err = run(strings.TrimSpace(string(out)), env, append(args, info.Path)...); err != nil {
		return nil, err
	}
	all := map[string]*pkg{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := &pkg{root: root}
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if !p.Standard {
			p.root = p.Module.Dir
		}
		all[p.ImportPath] = p
	}
}

// run runs the go command in dir, or in the current folder if dir is empty.
func run(dir string, env []string, args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, env, &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out, nil
}

// compare returns an error if go list and the linker disagree about a module or its version: the source here
// is then not the source of the program.
func compare(modules []*Module, packages map[string]*pkg) error {
	here := map[string]string{}
	for _, p := range packages {
		switch {
		case p.Standard:
		case p.Module.Replace != nil:
			here[p.Module.Replace.Path] = p.Module.Replace.Version
		default:
			here[p.Module.Path] = p.Module.Version
		}
	}
	for i, m := range modules {
		version, ok := here[m.Path]
		delete(here, m.Path)
		switch {
		case m.Path == Std, i == 0 && ok:
		case !ok:
			return fmt.Errorf("%s is linked, and go list does not name it; expected a program that was built of this source", m)
		case version != m.Version:
			return fmt.Errorf("%s is linked, and go list names %s; expected a program that was built of this source", m, version)
		}
	}
	for path := range here {
		return fmt.Errorf("go list names %s, which is not linked; expected a program that was built of this source", path)
	}
	return nil
}

func link(modules []*Module, packages map[string]*pkg) {
	needs := map[string]map[string]bool{}
	for _, p := range packages {
		of := p.module()
		for _, path := range p.Imports {
			path = cmp.Or(p.ImportMap[path], path)
			if q := packages[path]; q != nil && q.module() != of && !q.Standard {
				if needs[of] == nil {
					needs[of] = map[string]bool{}
				}
				needs[of][q.module()] = true
			}
		}
	}
	for _, m := range modules {
		m.Needs = slices.Sorted(maps.Keys(needs[m.Path]))
	}
}

type folder struct {
	path string
	// name is the path of the folder within the module, "." for the folder of the module.
	name string
}

// foldersOf returns the folders of a module's packages, and the folders above them within the module, sorted.
// For Std, only GOROOT and the packages in src/vendor count: the licence in crypto/internal/boring covers an
// object file that is not linked, see list.
func foldersOf(m *Module, packages map[string]*pkg) (all []folder) {
	names := map[string]string{}
	for _, p := range packages {
		if p.module() != m.Path {
			continue
		}
		names["."] = p.root
		name, err := filepath.Rel(p.root, p.Dir)
		if err != nil || p.Standard && !strings.HasPrefix(name, filepath.Join("src", "vendor")) {
			continue
		}
		for ; name != "."; name = filepath.Dir(name) {
			names[name] = filepath.Join(p.root, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		all = append(all, folder{names[name], name})
	}
	return all
}
