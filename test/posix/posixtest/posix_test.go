// Package posixtest runs the tests that go-fuse has for file systems, each in a folder of its own.
package posixtest

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hanwen/go-fuse/v2/posixtest"
)

var folder = flag.String("folder", "", "an empty folder on the file system to test")

func Test(t *testing.T) {
	var names []string
	for name := range posixtest.All {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			place := filepath.Join(*folder, name)
			if err := os.Mkdir(place, 0o755); err != nil {
				t.Fatal(err)
			}
			posixtest.All[name](t, place)
			if err := os.RemoveAll(place); err != nil {
				t.Error(err)
			}
		})
	}
}
