// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-llm-cache/caddy-llm-cache"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli"
)

func TestDemo(t *testing.T) {
	var out bytes.Buffer
	began := time.Now()
	sum, err := cli.RunDemo(t.Context(), &out)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v after %s", sum, time.Since(began))
	if sum.Requests != 27 || sum.Actual <= 0 || sum.Actual > 0.9*sum.Client {
		t.Errorf("%+v:\n%s", sum, out.String())
	}
	if s := out.String(); strings.Count(s, "\n") < 27 || !strings.Contains(s, "27 requests cost $") {
		t.Error(s)
	}
	var head string
	for line := range strings.Lines(out.String()) {
		switch cells := strings.Fields(line); {
		case strings.HasSuffix(line, "saved\n"):
			head = line
		case head != "" && strings.HasSuffix(line, " %\n") && len(cells) == 8 && len(line) != len(head):
			t.Errorf("this row does not stand under its head:\n%s%s", head, line)
		}
	}
	if head == "" {
		t.Error("the table has no head")
	}
	// docs/start/quickstart.md shows some of these rows.
	page, err := os.ReadFile("../../docs/start/quickstart.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for line := range strings.Lines(string(page)) {
		if cells := strings.Fields(line); len(cells) == 8 && cells[7] == "%" {
			if shown++; !strings.Contains(out.String(), strings.TrimPrefix(line, "    ")) {
				t.Errorf("docs/start/quickstart.md shows a row that is not printed:\n%s", line)
			}
		}
	}
	if shown == 0 {
		t.Error("docs/start/quickstart.md shows no row")
	}
}
