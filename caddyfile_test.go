// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package llmcache

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

var rewrite = flag.Bool("rewrite", false, "write what the adapter yields into testdata/adapt")

// TestAdapt adapts the Caddyfile in the first half of each file and compares
// the JSON in the second half, or finds the second half in the error.
func TestAdapt(t *testing.T) {
	files, err := filepath.Glob("testdata/adapt/*.caddyfiletest")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test data: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".caddyfiletest")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			input, want, ok := strings.Cut(strings.ReplaceAll(string(data), "\r\n", "\n"), "----------\n")
			if !ok {
				t.Fatal("no line of dashes")
			}
			if formatted := caddyfile.Format([]byte(input)); string(formatted) != input {
				t.Errorf("not formatted, want:\n%s", formatted)
			}
			got, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(input), nil)
			if strings.HasPrefix(name, "error_") {
				want = strings.TrimSpace(want)
				if err == nil || want == "" || !strings.Contains(err.Error(), want) {
					t.Errorf("got error %v, want one that holds %q", err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var pretty bytes.Buffer
			if err := json.Indent(&pretty, got, "", "\t"); err != nil {
				t.Fatal(err)
			}
			pretty.WriteByte('\n')
			if *rewrite {
				if err := os.WriteFile(file, []byte(input+"----------\n"+pretty.String()), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if pretty.String() != want {
				t.Errorf("got\n%s\nwant\n%s", pretty.String(), want)
			}
			// What adapts must also be a configuration that loads.
			var cfg caddy.Config
			if err := caddy.StrictUnmarshalJSON(got, &cfg); err != nil {
				t.Fatal(err)
			}
			if err := caddy.Validate(&cfg); err != nil {
				t.Errorf("validating: %v", err)
			}
		})
	}
}
