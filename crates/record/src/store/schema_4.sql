-- Each row has a checksum of its other columns; NULL until the transaction that writes it ends.
ALTER TABLE run ADD COLUMN sum INTEGER;
ALTER TABLE seam ADD COLUMN sum INTEGER;
ALTER TABLE skipped ADD COLUMN sum INTEGER;
ALTER TABLE cell ADD COLUMN sum INTEGER;
ALTER TABLE trial ADD COLUMN sum INTEGER;
ALTER TABLE histogram ADD COLUMN sum INTEGER;
ALTER TABLE series ADD COLUMN sum INTEGER;
ALTER TABLE file ADD COLUMN sum INTEGER;
CREATE INDEX run_unsealed ON run (sum) WHERE sum IS NULL;
CREATE INDEX seam_unsealed ON seam (sum) WHERE sum IS NULL;
CREATE INDEX skipped_unsealed ON skipped (sum) WHERE sum IS NULL;
CREATE INDEX cell_unsealed ON cell (sum) WHERE sum IS NULL;
CREATE INDEX trial_unsealed ON trial (sum) WHERE sum IS NULL;
CREATE INDEX histogram_unsealed ON histogram (sum) WHERE sum IS NULL;
CREATE INDEX series_unsealed ON series (sum) WHERE sum IS NULL;
CREATE INDEX file_unsealed ON file (sum) WHERE sum IS NULL;
