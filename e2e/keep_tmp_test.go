package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func keepHome(t *testing.T, home string) {
	if d := os.Getenv("KEEP_HOMES"); d != "" {
		t.Cleanup(func() {
			to := filepath.Join(d, strings.NewReplacer("/", "-", " ", "_", ",", "").Replace(t.Name()))
			_ = exec.Command("cp", "-r", home, to).Run()
		})
	}
}
