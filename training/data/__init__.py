"""From folders of music files to prepared data, and from prepared data to batches."""
