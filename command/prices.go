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

package command

import (
	"fmt"

	"github.com/spf13/cobra"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-llm-cache/caddy-llm-cache/cachemodel"
)

func pricesFlag(cmd *cobra.Command) {
	cmd.Flags().String("prices", "", "File with prices and cache rules of models, as for the option prices of Caddyfiles")
}

// prices reads the file of the flag, or returns the built-in table.
func prices(f caddycmd.Flags) (*cachemodel.Table, error) {
	t, err := cachemodel.ReadPrices(f.String("prices"))
	if err != nil {
		return nil, fmt.Errorf("prices: %w", err)
	}
	return t, nil
}
