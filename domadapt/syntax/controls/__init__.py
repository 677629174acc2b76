"""What a gain from syntax must beat: other trees around any parser."""
