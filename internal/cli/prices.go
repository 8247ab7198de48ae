// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
)

func pricesFlag(cmd *cobra.Command) {
	cmd.Flags().String("prices", "", "File with prices and cache rules of models, as for the option prices of Caddyfiles")
}

// prices reads the flag's file, or returns the built-in table.
func prices(f caddycmd.Flags) (*pricing.Table, error) {
	t, err := pricing.ReadPrices(f.String("prices"))
	if err != nil {
		return nil, fmt.Errorf("prices: %w", err)
	}
	return t, nil
}
