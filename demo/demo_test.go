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

package demo_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-llm-cache/caddy-llm-cache"
	"github.com/caddy-llm-cache/caddy-llm-cache/demo"
)

func TestDemo(t *testing.T) {
	var out bytes.Buffer
	began := time.Now()
	sum, err := demo.Run(t.Context(), &out)
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
}
