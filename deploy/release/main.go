// SPDX-License-Identifier: Apache-2.0

// Command release checks that the tree is ready for a release, and completes the folder of one. `make
// release` runs it.
//
//	release check VERSION
//	release finish -version VERSION -image NAME:TAG -from WORK FOLDER
//
// check compares VERSION with the files VERSION and CHANGELOG.md, and refuses changes that are not
// committed. finish moves what users download from WORK, where `make deb rpm oci` has put it, to FOLDER. Then
// it adds licences, notes and checksums. The same commit gives the same bytes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// source is the folder of the project: this program runs in its module's folder.
const source = ".."

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "check":
		return check(args[1])
	case len(args) > 1 && args[0] == "finish":
		return runFinish(args[1:])
	}
	return errors.New("expected check VERSION or finish")
}

func runFinish(args []string) error {
	var f folder
	flags := flag.NewFlagSet("finish", flag.ContinueOnError)
	flags.StringVar(&f.version, "version", "", "of the release")
	flags.StringVar(&f.image, "image", "", "name of the image, with its tag")
	flags.StringVar(&f.work, "from", "", "folder with the packages and archives")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if f.version == "" || f.image == "" || f.work == "" || flags.NArg() != 1 {
		return errors.New("expected finish -version VERSION -image NAME:TAG -from WORK FOLDER")
	}
	f.path = flags.Arg(0)
	return f.finish()
}

// check refuses a tree that is not the one of this release.
func check(version string) error {
	text, err := os.ReadFile(filepath.Join(source, "VERSION"))
	if err != nil {
		return err
	}
	if want := strings.TrimSpace(string(text)); version != want {
		return fmt.Errorf("version %s: the file VERSION has %s; expected VERSION=%s", version, want, want)
	}
	if strings.Contains(version, "-") {
		// Packages would have a ~ in their names, which GitHub alters.
		return fmt.Errorf("version %s: expected a version without a hyphen", version)
	}
	changes, err := os.ReadFile(filepath.Join(source, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	if _, err := entryOf(string(changes), version); err != nil {
		return err
	}
	dirty, err := git("status", "--porcelain")
	if err != nil {
		return err
	}
	if dirty != "" {
		return fmt.Errorf("changes that are not committed:\n%s", dirty)
	}
	return nil
}

// git returns what git prints of the project, without the last newline.
func git(args ...string) (string, error) {
	out, err := exec.Command("git", append([]string{"-C", source}, args...)...).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, failed.Stderr)
	}
	return strings.TrimSuffix(string(out), "\n"), err
}
