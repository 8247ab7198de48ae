// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package llmcache

import (
	"bytes"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-llm-cache/caddy-llm-cache/extend/aws"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	_ "github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/valkey"
)

func TestMain(m *testing.M) { testkit.MainInHome(m) }

var rewrite = flag.Bool("rewrite", false, "write what the adapter yields into testdata/adapt")

// TestAdapt adapts the Caddyfile in the first half of each file and compares
// the JSON in the second half, or finds the second half in the error.
func TestAdapt(t *testing.T) {
	files, err := filepath.Glob("internal/testdata/adapt/*.caddyfiletest")
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
				if *rewrite && err != nil {
					_, want, _ = strings.Cut(err.Error(), "': ") // behind the name of the directive
					if err := os.WriteFile(file, []byte(input+"----------\n"+want+"\n"), 0o600); err != nil {
						t.Fatal(err)
					}
				}
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
			// Each adapted configuration must also load.
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

// TestValidateRefuses: `caddy validate`, which opens nothing, finds configurations that could not
// start.
func TestValidateRefuses(t *testing.T) {
	for _, c := range []struct{ options, want string }{
		{"budget * $1 day", "an audit store that can be read again"},
		{"budget * 1000 tokens month soft", "an audit store that can be read again"},
		{"audit jsonl\nbudget * $1 day", "an audit store that can be read again"},
		{"audit postgres postgres://%\nbudget * $1 day", "dsn: "},
		{"audit sqlite\nbudget * $1 day", ""},
		{"audit postgres postgres://127.0.0.1:1/none\nbudget * $1 day", ""},
	} {
		text := "{\nllm_cache {\n" + c.options + "\n}\n}\n:8080 {\nllm_cache\n}\n"
		data, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), nil)
		if err != nil {
			t.Fatalf("%s: %v", c.options, err)
		}
		var cfg caddy.Config
		if err := caddy.StrictUnmarshalJSON(data, &cfg); err != nil {
			t.Fatal(err)
		}
		if err := caddy.Validate(&cfg); (err == nil) != (c.want == "") || err != nil &&
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.options, err, c.want)
		}
	}
}

// setting is an option of a Caddyfile, with the options in its block.
type setting struct {
	line  string
	block []setting
}

func (s setting) name() string {
	name, _, _ := strings.Cut(s.line, " ")
	return name
}

// settings reads lines up to the end of their block.
func settings(lines []string) (all []setting, rest []string) {
	for len(lines) > 0 {
		line := strings.TrimSpace(lines[0])
		lines = lines[1:]
		switch head, opens := strings.CutSuffix(line, "{"); {
		case line == "":
		case line == "}":
			return all, lines
		case opens:
			s := setting{line: head + " "}
			s.block, lines = settings(lines)
			all = append(all, s)
		default:
			all = append(all, setting{line: line})
		}
	}
	return all, nil
}

// shuffled shuffles the options, but keeps the order of options with the same name.
func shuffled(all []setting, r *rand.Rand) []setting {
	out := slices.Clone(all)
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	places := map[string][]int{}
	for i, s := range out {
		places[s.name()] = append(places[s.name()], i)
	}
	for _, s := range all {
		at := places[s.name()]
		places[s.name()] = at[1:]
		if s.name() != "side_requests" && s.name() != "fallback" { // their blocks belong to other directives
			s.block = shuffled(s.block, r)
		}
		out[at[0]] = s
	}
	return out
}

// written writes settings, those of llm_cache shuffled.
func written(b *strings.Builder, all []setting, r *rand.Rand) {
	for _, s := range all {
		if s.name() == "llm_cache" {
			s.block = shuffled(s.block, r)
		}
		b.WriteString(s.line)
		if strings.HasSuffix(s.line, " ") {
			b.WriteString("{\n")
			written(b, s.block, r)
			b.WriteString("}")
		}
		b.WriteByte('\n')
	}
}

// TestOrderOfOptions adapts each Caddyfile with shuffled options. The result must not depend on
// their order.
func TestOrderOfOptions(t *testing.T) {
	files, err := filepath.Glob("internal/testdata/adapt/*.caddyfiletest")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test data: %v", err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		input, want, ok := strings.Cut(strings.ReplaceAll(string(data), "\r\n", "\n"), "----------\n")
		if strings.HasPrefix(filepath.Base(file), "error_") || !ok {
			continue
		}
		all, _ := settings(strings.Split(input, "\n"))
		for range 40 {
			var b strings.Builder
			written(&b, all, r)
			got, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(b.String()), nil)
			if err != nil {
				t.Fatalf("%s: %v in\n%s", file, err, b.String())
			}
			var pretty bytes.Buffer
			if err := json.Indent(&pretty, got, "", "\t"); err != nil {
				t.Fatal(err)
			}
			if pretty.String()+"\n" != want {
				t.Fatalf("%s: got\n%s\nfrom\n%s", file, pretty.String(), b.String())
			}
		}
	}
}
